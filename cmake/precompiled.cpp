// Carries precompiled headers (KeyscopeTarget.cmake); has nothing of its own.

#include <string>
#include <utility>
#include <vector>

#include "capture/tokenizer/chat_template.hpp"
#include "capture/tokenizer/template_skeleton.hpp"

namespace keyscope::tokenizer {
namespace {

// Parts that several kinds share. Sources are written as their authors write them, without what a plain
// prompt never meets; `{%-` takes the line breaks away.

const std::string kTurnsAlternate = R"(
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('') }}{% endif %})";

const std::string kChatMlTurn =
    R"({{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }})";
const std::string kChatMlGeneration = R"({{- '<|im_start|>assistant\n' }})";
const std::string kChatMlUser = "<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n";
const std::string kChatMlSystem = "<|im_start|>system\n{system}<|im_end|>\n" + kChatMlUser;
const std::string kChatMlDefault = "<|im_start|>system\n{default}<|im_end|>\n" + kChatMlUser;

const std::string kQwenSystem = R"(
{%- if messages[0].role == 'system' %}{{ '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }})";

// Looks for the last question, which only matters to earlier answers.
std::string qwen3_look_back(const std::string& also) {
  return R"(
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
{%- set index = (messages|length - 1) - loop.index0 %}
{%- if ns.multi_step_tool and message.role == 'user' and )" +
         also + R"(not(message.content.startswith('<tool_response>')
      and message.content.endswith('</tool_response>')) %}
{%- set ns.multi_step_tool = false %}{% set ns.last_query_index = index %}{% endif %}{% endfor %})";
}

std::string qwen3(const std::string& generation) {
  return kQwenSystem + "{% endif %}" + qwen3_look_back("message.content is string and ") + R"(
{%- for message in messages %}
{%- set content = message.content %}
{%- if (message.role == 'user') or (message.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}{% endif %}{% endfor %})" +
         generation;
}

const std::string kLlama3Turn = R"(
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' }})";
const std::string kLlama3User =
    "<|start_header_id|>user<|end_header_id|>\n\n{strip}{user}{/strip}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n";
const std::string kLlama3System = "{bos}<|start_header_id|>system<|end_header_id|>\n\n";

// From 3.1 on the system turn is always there and tells the date.
ChatKind llama31(std::string name, const std::string& date_source, const std::string& date) {
  const std::string dates =
      kLlama3System + "Cutting Knowledge Date: December 2023\nToday Date: " + date + "\n\n";
  return {std::move(name),
          R"({{- bos_token }}
{%- set tools_in_user_message = true %}
{%- set date_string = )" +
              date_source +
              R"( %}
{%- if messages[0].role == 'system' %}
{%- set system_message = messages[0].content | trim %}{% set messages = messages[1:] %}
{%- else %}{% set system_message = '' %}{% endif %}
{{- '<|start_header_id|>system<|end_header_id|>\n\n' }}
{{- 'Cutting Knowledge Date: December 2023\n' }}
{{- 'Today Date: ' + date_string + '\n\n' }}
{{- system_message }}
{{- '<|eot_id|>' }}
{%- for message in messages %})" +
              kLlama3Turn + R"({% endfor %}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }})",
          dates + "<|eot_id|>" + kLlama3User, dates + "{strip}{system}{/strip}<|eot_id|>" + kLlama3User};
}

const std::string kSystemApart = R"(
{%- if messages[0].role == 'system' %}
{%- set system_message = messages[0].content %}{% set loop_messages = messages[1:] %}
{%- else %}{% set loop_messages = messages %}{% endif %})";

// [INST] with a system text inside of the turn; the space after it came and went.
std::string mistral_turns(const std::string& place, const std::string& open, const std::string& close) {
  return R"(
{%- if message.role == 'user' %}
{%- if loop.)" +
         place + R"( and system_message is defined %}
{{- ')" + open +
         R"(' + system_message + '\n\n' + message.content + ')" + close + R"(' }}
{%- else %}{{ ')" +
         open + R"(' + message.content + ')" + close + R"(' }}{% endif %}
{%- else %}{{ raise_exception('') }}{% endif %}{% endfor %})";
}

ChatKind mistral_v3(std::string name, const std::string& open) {
  return {std::move(name),
          kSystemApart + R"(
{%- set user_messages = loop_messages | selectattr('role', 'equalto', 'user') | list %}
{%- set ns = namespace() %}{% set ns.index = 0 %}
{%- for message in loop_messages %}
{%- if (message.role == 'user') != (ns.index % 2 == 0) %}{{ raise_exception('') }}{% endif %}
{%- set ns.index = ns.index + 1 %}{% endfor %}
{{- bos_token }}
{%- for message in loop_messages %})" +
              mistral_turns("last", open, "[/INST]"),
          "{bos}" + open + "{user}[/INST]", "{bos}" + open + "{system}\n\n{user}[/INST]"};
}

const std::string kGemmaTurn = R"({{- '<start_of_turn>' + role + '\n' + )";
const std::string kGemmaEnd = R"( }}{{ '<end_of_turn>\n' }}{% endfor %}{{ '<start_of_turn>model\n' }})";
const std::string kGemmaUser = "{strip}{user}{/strip}<end_of_turn>\n<start_of_turn>model\n";

const std::string kPhiUser = "<|user|>\n{user}<|end|>\n<|assistant|>\n";
const std::string kPhiSystem = "<|system|>\n{system}<|end|>\n" + kPhiUser;

std::string phi3(const std::string& system_condition) {
  return "{% for message in messages %}{% if " + system_condition + R"( %}
{{- '<|system|>\n' + message.content + '<|end|>\n' }}
{%- elif message.role == 'user' %}{{ '<|user|>\n' + message.content + '<|end|>\n' }}{% endif %}{% endfor %}
{{- '<|assistant|>\n' }})";
}

const std::string kPhi3UserOnly = R"({% for message in messages %}{% if message.role == 'user' %}
{{- '<|user|>\n' + message.content + '<|end|>\n<|assistant|>\n' }}{% endif %}{% endfor %})";

std::vector<ChatKind> chatml_kinds() {
  return {
      {"ChatML with a default system text (Qwen2, SmolLM2)",
       R"({% for message in messages %}
{%- if loop.first and messages[0].role != 'system' %}
{{- '<|im_start|>system\n' + default_system + '<|im_end|>\n' }}{% endif %})" +
           kChatMlTurn + "{% endfor %}" + kChatMlGeneration,
       kChatMlDefault, kChatMlSystem},
      {"ChatML", "{% for message in messages %}" + kChatMlTurn + "{% endfor %}" + kChatMlGeneration,
       kChatMlUser, kChatMlSystem},
      {"Qwen2.5",
       kQwenSystem + R"(
{%- else %}{{ '<|im_start|>system\n' + default_system + '<|im_end|>\n' }}{% endif %}
{%- for message in messages %}
{%- if (message.role == 'user') or (message.role == 'system' and not loop.first)
      or (message.role == 'assistant' and not message.tool_calls) %})" +
           kChatMlTurn + "{% endif %}{% endfor %}" + kChatMlGeneration,
       kChatMlDefault, kChatMlSystem},
      {"Qwen3",
       kQwenSystem + "{% endif %}" + qwen3_look_back("") + R"(
{%- for message in messages %}
{%- if (message.role == 'user') or (message.role == 'system' and not loop.first) %})" +
           kChatMlTurn + "{% endif %}{% endfor %}" + kChatMlGeneration,
       kChatMlUser, kChatMlSystem},
      {"Qwen3, revised", qwen3(kChatMlGeneration), kChatMlUser, kChatMlSystem},
      {"Qwen3 Thinking", qwen3(R"({{- '<|im_start|>assistant\n<think>\n' }})"), kChatMlUser + "<think>\n",
       kChatMlSystem + "<think>\n"},
  };
}

std::vector<ChatKind> llama_kinds() {
  return {
      {"Llama 2",
       R"({% if messages[0].role == 'system' %}
{%- set loop_messages = messages[1:] %}{% set system_message = messages[0].content %}
{%- else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}
{%- for message in loop_messages %})" +
           kTurnsAlternate + R"(
{%- if loop.index0 == 0 and system_message != false %}
{%- set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message.content %}
{%- else %}{% set content = message.content %}{% endif %}
{%- if message.role == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% endif %}{% endfor %})",
       "{bos}[INST] {strip}{user}{/strip} [/INST]",
       "{bos}[INST] {strip}<<SYS>>\n{system}\n<</SYS>>\n\n{user}{/strip} [/INST]"},
      {"Llama 3",
       R"({% set loop_messages = messages %}{% for message in loop_messages %}
{%- set content = '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim
      + '<|eot_id|>' %}
{%- if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}
{{- content }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }})",
       "{bos}" + kLlama3User, kLlama3System + "{strip}{system}{/strip}<|eot_id|>" + kLlama3User},
      llama31("Llama 3.1, 3.3", "'26 Jul 2024'", "26 Jul 2024"),
      llama31("Llama 3.2", "strftime_now('%d %b %Y')", "{date}"),
      {"Zephyr (TinyLlama)",
       R"({% for message in messages %}
{%- if message.role == 'user' %}{{ '<|user|>\n' + message.content + eos_token + '\n' }}
{%- elif message.role == 'system' %}{{ '<|system|>\n' + message.content + eos_token + '\n' }}{% endif %}
{%- if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %})",
       "<|user|>\n{user}{eos}\n<|assistant|>\n",
       "<|system|>\n{system}{eos}\n<|user|>\n{user}{eos}\n<|assistant|>\n"},
  };
}

std::vector<ChatKind> mistral_kinds() {
  return {
      {"Mistral, first form", "{{ bos_token }}{% for message in messages %}" + kTurnsAlternate + R"(
{%- if message.role == 'user' %}{{ '[INST] ' + message.content + ' [/INST]' }}
{%- else %}{{ raise_exception('') }}{% endif %}{% endfor %})",
       "{bos}[INST] {user} [/INST]", ""},
      {"Mistral v0.1, v0.2",
       kSystemApart + "{{- bos_token }}{% for message in loop_messages %}" + kTurnsAlternate +
           mistral_turns("first", " [INST] ", " [/INST]"),
       "{bos} [INST] {user} [/INST]", "{bos} [INST] {system}\n\n{user} [/INST]"},
      mistral_v3("Mistral v0.3", "[INST] "),
      mistral_v3("Mistral Nemo", "[INST]"),
  };
}

std::vector<ChatKind> gemma_and_phi_kinds() {
  return {
      {"Gemma, Gemma 2",
       R"({{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('') }}{% endif %}
{%- for message in messages %})" +
           kTurnsAlternate + "{% set role = message.role %}" + kGemmaTurn + "message.content | trim" +
           kGemmaEnd,
       "{bos}<start_of_turn>user\n" + kGemmaUser, ""},
      {"Gemma 3",
       R"({{ bos_token }}{% if messages[0].role == 'system' %}
{%- set first_user_prefix = messages[0].content + '\n\n' %}{% set loop_messages = messages[1:] %}
{%- else %}{% set first_user_prefix = '' %}{% set loop_messages = messages %}{% endif %}
{%- for message in loop_messages %})" +
           kTurnsAlternate + "{% set role = message.role %}" + kGemmaTurn +
           "(first_user_prefix if loop.first else '') + message.content | trim" + kGemmaEnd,
       "{bos}<start_of_turn>user\n" + kGemmaUser, "{bos}<start_of_turn>user\n{system}\n\n" + kGemmaUser},
      {"Phi-3 mini", phi3("message.role == 'system'"), kPhiUser, kPhiSystem},
      {"Phi-3.5 mini", phi3("message.role == 'system' and message.content"), kPhiUser, kPhiSystem, true},
      {"Phi-3 mini, first form", "{{ bos_token }}" + kPhi3UserOnly, "{bos}" + kPhiUser, ""},
      {"Phi-3 medium", kPhi3UserOnly, kPhiUser, ""},
      {"Phi-3 small",
       R"({{ bos_token }}{% for message in messages %}
{{- '<|' + message.role + '|>\n' + message.content + '<|end|>\n' }}{% endfor %}{{ '<|assistant|>\n' }})",
       "{bos}" + kPhiUser, "{bos}" + kPhiSystem},
  };
}

}  // namespace

const std::vector<ChatKind>& chat_kinds() {
  static const std::vector<ChatKind> kKinds = [] {
    std::vector<ChatKind> all;
    for (const auto& family : {chatml_kinds(), llama_kinds(), mistral_kinds(), gemma_and_phi_kinds()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return kKinds;
}

const KnownConditions& plain_chat_conditions() {
  static const KnownConditions kKnown = [] {
    KnownConditions known;
    for (const char* holds :
         {"add_generation_prompt", "add_generation_prompt and messages[-1].role != 'assistant'",
          "strftime_now is defined", "not date_string is defined", "not tools_in_user_message is defined",
          "message.content is string", "messages[0].content is string",
          "not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message)",
          R"(not (message.role == 'tool' or message.role == 'tool_results'
              or (message.tool_calls is defined and message.tool_calls is not none)))"})
      known[condition_text(holds)] = true;
    // Transformers passes `tools` always, as none.
    for (const char* fails :
         {"tools", "not tools is defined", "tools is not none", "custom_tools is defined",
          "builtin_tools is defined", "builtin_tools is defined or tools is not none",
          "tools is not none and not tools_in_user_message", "tools_in_user_message and not tools is none",
          "tools is not none and (message == user_messages[-1])", "message.role == 'assistant'",
          "message.role == 'tool'", "message.role == 'tool_results' or message.role == 'tool'",
          "message.tool_calls is defined and message.tool_calls is not none",
          "enable_thinking is defined and enable_thinking is false", "not add_generation_prompt is defined"})
      known[condition_text(fails)] = false;
    return known;
  }();
  return kKnown;
}

}  // namespace keyscope::tokenizer

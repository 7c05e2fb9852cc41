import numpy as np
import keyscope

@keyscope.policy(needs="values")
def outlying(head):
    """Keys far from the mean key, by the size of their values; the newest four stay."""
    distance = np.linalg.norm(head.keys - head.keys.mean(axis=0), axis=1)
    scores = distance * np.linalg.norm(head.values, axis=1)
    scores[-4:] = np.inf
    return scores

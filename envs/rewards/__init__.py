"""Visual rewards: pure functions that compare a prediction with the truth and return a score in [0, 1].

Source of the kinds: Kimi K2.5 report, section 4.4.2 (F1 with soft matching, Gaussian distances, IoU of polygons,
normalised edit distance, absolute difference of counts). The widths and tolerances are not published; those here are
defaults of this project.
"""

from envs.rewards.kinds import KINDS, RewardError, RewardKind, VisualReward
from envs.rewards.matching import match_f1

__all__ = ["KINDS", "RewardError", "RewardKind", "VisualReward", "match_f1"]

"""Environments for agents: the contract, a browser, an X11 desktop. Importing this loads nothing heavy."""

from envs.actions import (
    Action,
    Button,
    Click,
    Drag,
    Hotkey,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    PressKey,
    Scroll,
    Terminate,
    TypeText,
    Wait,
)
from envs.env import Env, EnvSpec, InstructionTask, Task, TaskSpec, other_scores_of, spec_of, warnings_of
from envs.errors import ActionError, EnvDiedError, EnvError, EnvSetupError, MissingDependencyError
from envs.geometry import ScreenGeometry
from envs.observation import Dialog, Element, Observation, StepResult, Tab
from envs.suite import Suite
from envs.target import UNKNOWN, Check, Target

__all__ = [
    "UNKNOWN",
    "Action",
    "ActionError",
    "Button",
    "Check",
    "Click",
    "Dialog",
    "Drag",
    "Element",
    "Env",
    "EnvDiedError",
    "EnvError",
    "EnvSetupError",
    "EnvSpec",
    "Hotkey",
    "InstructionTask",
    "KeyDown",
    "KeyUp",
    "MissingDependencyError",
    "MouseDown",
    "MouseUp",
    "Move",
    "Observation",
    "PressKey",
    "ScreenGeometry",
    "Scroll",
    "StepResult",
    "Suite",
    "Tab",
    "Target",
    "Task",
    "TaskSpec",
    "Terminate",
    "TypeText",
    "Wait",
    "other_scores_of",
    "spec_of",
    "warnings_of",
]

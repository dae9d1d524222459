"""Modules of envs do not import each other, also not in functions and under `TYPE_CHECKING`."""

from graphlib import TopologicalSorter

from tests.test_architecture import FILES, imports_of, module_of


def test_no_modules_of_envs_import_each_other_anywhere() -> None:
    modules = {module_of(path): path for path in FILES if module_of(path).startswith("envs")}
    graph = {
        module: {name for name, _, _ in imports_of(path) if name in modules and name != module}
        for module, path in modules.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules

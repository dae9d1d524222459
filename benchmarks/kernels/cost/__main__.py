"""Predicted times beside floors: `python -m benchmarks.kernels.cost [--measured FILE]`. Nothing here is measured."""

import argparse
import sys
from pathlib import Path

import benchmarks.kernels.cost as package
from benchmarks.kernels.cost.hardware import Hardware
from benchmarks.kernels.cost.measured import read_measurements
from benchmarks.kernels.cost.predict import predict_all
from benchmarks.kernels.cost.table import floor_tables, prediction_table
from model_runtime.errors import ConfigError
from model_runtime.launch.sizes import RELEASE


def main() -> int:
    """Print the tables; the exit status."""
    options = _parse_options()
    try:
        measured = read_measurements(options.measured) if options.measured else None
        hardware = Hardware(
            copy_tb_s=options.copy_tb_s or (measured.ceilings[0] / 1e3 if measured else Hardware().copy_tb_s),
            matmul_tflop_s=options.matmul_tflop_s or (measured.ceilings[1] if measured else Hardware().matmul_tflop_s),
            multiprocessors=options.multiprocessors,
            launch_us=options.launch_us,
        )
        print(f"Floors\n\n{floor_tables(RELEASE, hardware)}\n")
        print(f"Predictions of a model, not measured\n\n{prediction_table(predict_all(RELEASE, hardware), measured)}")
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parse_options() -> argparse.Namespace:
    default = Hardware()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels.cost",
        description=package.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--measured", type=Path, metavar="FILE", help="a measurement; its ceilings are taken, too")
    parser.add_argument("--copy-tb-s", type=float, help=f"ceiling of a copy; {default.copy_tb_s:g}")
    parser.add_argument("--matmul-tflop-s", type=float, help=f"ceiling of a bf16 matmul; {default.matmul_tflop_s:g}")
    parser.add_argument("--multiprocessors", type=int, default=default.multiprocessors, help="%(default)s")
    parser.add_argument("--launch-us", type=float, default=default.launch_us, help="of each launch; %(default)g")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

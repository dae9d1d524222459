"""Machine code that gives registers away while a matrix instruction still reads them, and code that waits."""

import pytest

from scripts.compile_gate.machine_code import find_hazards, find_loops, find_product_loop, written_by

TOO_EARLY = """
        /*0100*/                   IADD3 R2, R2, 0x1, RZ ;
        /*0110*/                   LDS.128 R24, [R5] ;
        /*0120*/                   HGMMA.64x64x16.F32.BF16 R88, R24, gdesc[UR4], R88 ;
        /*0130*/                   HGMMA.64x64x16.F32.BF16 R88, R28, gdesc[UR8], R88, gsb0 ;
        /*0140*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
        /*0150*/              @P0  BRA 0x110 ;
        /*0160*/                   EXIT ;
"""


def count_hazards(dump: str) -> int:
    return len(list(find_hazards(find_loops(dump)[0])))


def test_a_register_is_loaded_again_while_it_is_read() -> None:
    assert [len(loop.code) for loop in find_loops(TOO_EARLY)] == [5]
    assert count_hazards(TOO_EARLY) == 2  # in the second turn and in the third


def test_whoever_waits_may_write() -> None:
    assert count_hazards(TOO_EARLY.replace("gsb0, 0x1 ;", "gsb0, 0x0 ;")) == 0


def test_other_registers_and_operands_in_shared_memory_are_free() -> None:
    assert count_hazards(TOO_EARLY.replace("LDS.128 R24", "LDS.128 R40")) == 0
    in_memory = TOO_EARLY.replace("R24, gdesc[UR4]", "gdesc[UR4]").replace("R28, gdesc[UR8]", "gdesc[UR8]")
    assert count_hazards(in_memory) == 0


def test_a_write_between_the_instructions_of_a_group() -> None:
    code = TOO_EARLY.replace("0x1 ;", "0x0 ;").replace(
        "        /*0130*/", "        /*0128*/                   MOV R25, R3 ;\n        /*0130*/"
    )
    assert count_hazards(code) == 3


def test_code_that_never_jumps_back_is_an_unrolled_loop() -> None:
    dump = TOO_EARLY.replace("BRA 0x110", "BRA 0x160")
    assert [(len(loop.code), loop.turns) for loop in find_loops(dump)] == [(7, 1)]
    assert count_hazards(dump) == 0, "it is gone through once"
    twice = "".join(line.replace("01", "02") + "\n" for line in dump.splitlines()[1:6])
    assert count_hazards(dump.replace("        /*0160*/", twice + "        /*0160*/")) == 1


NESTED = """
        /*0100*/                   LDGSTS.E.BYPASS.128 [R2], desc[UR4][R4.64] ;
        /*0110*/                   LDGSTS.E.BYPASS.128 [R2], desc[UR4][R6.64] ;
        /*0120*/                   MATMUL R88, R24, R28, R88 ;
        /*0130*/                   MATMUL R92, R24, R30, R92 ;
        /*0140*/              @P0  BRA 0x120 ;
        /*0150*/                   IADD3 R2, R2, 0x1, RZ ;
        /*0160*/              @P1  BRA 0x150 ;
        /*0170*/                   MATMUL R92, R24, R30, R92 ;
        /*0180*/              @P2  BRA 0x100 ;
        /*0190*/                   BRA 0x190 ;
"""


@pytest.mark.parametrize("name", ["HGMMA.64x64x16.F32.BF16", "HMMA.16816.F32.BF16", "FFMA"])
def test_the_loop_along_the_sum_is_the_innermost_with_most_products(name: str) -> None:
    loops = find_loops(NESTED.replace("MATMUL", name))
    assert [len(loop.code) for loop in loops] == [9, 3, 2]
    assert find_product_loop(loops) is loops[1], "the copies around it are not its own"


def test_without_products_the_longest_loop_counts() -> None:
    loops = find_loops(NESTED.replace("MATMUL", "FADD"))
    assert find_product_loop(loops) is loops[0]


@pytest.mark.parametrize(
    ("text", "registers"),
    [
        ("IMAD.WIDE R4, R2, 0x4, R6", {4, 5}),
        ("@!P0 LDG.E.128.CONSTANT R8, desc[UR4][R2.64]", {8, 9, 10, 11}),
        ("LDSM.16.M88.4 R12, [R3]", {12, 13, 14, 15}),
        ("LDS.64 R6, [R3]", {6, 7}),
        ("STS.128 [R4], R8", set()),
        ("STG.E desc[UR4][R2.64], R7", set()),
        ("ISETP.GE.AND P0, PT, R3, R4, PT", set()),
        ("F2FP.BF16.F32.PACK_AB R9, R10, R11", {9}),
        ("UIADD3 UR4, UR4, 0x1, URZ", set()),
    ],
)
def test_what_is_written(text: str, registers: set[int]) -> None:
    assert written_by(text) == registers

"""Well-formed replies against a second reader, as ids and as text."""

from hypothesis import given

from tests.fuzz.settings import fuzzed
from tests.model_runtime.chat.parser import oracle
from tests.model_runtime.chat.parser.replies import as_ids, options, parse, well_formed


@fuzzed
@given(well_formed())
def test_both_read_the_same(made):
    thinking, reply = made
    expected = oracle.read(reply, thinking)
    named = options(thinking=thinking, tools=())
    assert parse(as_ids(reply), named) == expected
    assert parse([reply], options(thinking=thinking, tools=(), text=True)) == expected

"""Evidence of an answer: claims with the results they cite, a notebook that can be run again, and its verification."""

from cua.answer import Citation, Claim, find_claims
from cua.evidence.bundle import Bundle, CellCheck, Verification, write_bundle
from cua.evidence.verify import verify_run

__all__ = ["Bundle", "CellCheck", "Citation", "Claim", "Verification", "find_claims", "verify_run", "write_bundle"]

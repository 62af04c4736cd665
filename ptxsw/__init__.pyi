"""The types of the Python interface; `__init__.py` imports them when they are first asked for."""

from ptxsw import plugins as plugins
from ptxsw.emulator.stepping import SymbolicStep as SymbolicStep
from ptxsw.emulator.stepping import steps as steps
from ptxsw.emulator.stepping import to_z3 as to_z3
from ptxsw.errors import ParseError as ParseError
from ptxsw.errors import PtxError as PtxError
from ptxsw.errors import Unsupported as Unsupported
from ptxsw.parser import parse as parse
from ptxsw.pipeline import Options as Options
from ptxsw.pipeline import Result as Result
from ptxsw.pipeline import analyze as analyze
from ptxsw.pipeline import optimize as optimize
from ptxsw.prediction import predict as predict
from ptxsw.report import Report as Report
from ptxsw.report.prediction import Prediction as Prediction
from ptxsw.verify.verdict import verify as verify

__version__: str
__all__: list[str]

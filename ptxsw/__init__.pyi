"""The types of the Python interface; `__init__.py` imports them when they are first asked for."""

from ptxsw.driver import pipeline as pipeline
from ptxsw.driver import plugins as plugins
from ptxsw.driver.checking import check as check
from ptxsw.driver.pipeline import Options as Options
from ptxsw.driver.pipeline import Result as Result
from ptxsw.driver.pipeline import analyze as analyze
from ptxsw.driver.pipeline import optimize as optimize
from ptxsw.driver.prediction import predict as predict
from ptxsw.emulator.stepping import SymbolicStep as SymbolicStep
from ptxsw.emulator.stepping import steps as steps
from ptxsw.emulator.stepping import to_z3 as to_z3
from ptxsw.gpu.launch_choice import LaunchChoice as LaunchChoice
from ptxsw.gpu.launch_choice import choose as choose
from ptxsw.parser import parse as parse
from ptxsw.ptx.errors import ParseError as ParseError
from ptxsw.ptx.errors import PtxError as PtxError
from ptxsw.ptx.errors import Unsupported as Unsupported
from ptxsw.report import Report as Report
from ptxsw.report.prediction_text import Prediction as Prediction
from ptxsw.verify.verdict import Different as Different
from ptxsw.verify.verdict import Proved as Proved
from ptxsw.verify.verdict import Undecided as Undecided
from ptxsw.verify.verdict import verify as verify

__version__: str
__all__: list[str]

"""Shared by all tests: files that hold what is expected."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from ptxsw.cost import disassembly
from ptxsw.driver.lean_start import collect_seldom
from ptxsw.toolchain import find, ptxas

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in the background so, and the programs under test would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.skips"]

collect_seldom()  # most of what tests make stays until they end

settings.register_profile("busy", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("busy")  # others may use this machine, too

LONGEST = (
    "cli/test_looking.py::test_kernels_by_either_name[_ZN3app",
    "cli/test_looking.py::test_kernels_by_either_name[app::jacobi",
    "cost/test_disassembly.py::test_kernels_are_read_as_nvdisasm_reads_them[sm_7",
    "cost/test_disassembly.py::test_kernels_are_read_as_nvdisasm_reads_them[sm_9",
    "cost/test_sass.py::test_a_load_sets_a_barrier_that_its_consumer_waits_for[quotient-sm_1",
    "cost/test_sass.py::test_a_load_sets_a_barrier_that_its_consumer_waits_for[quotient-sm_9",
    "cost/test_sass.py::test_a_load_sets_a_barrier_that_its_consumer_waits_for[stencil-sm_10",
    "cost/test_sass.py::test_a_load_sets_a_barrier_that_its_consumer_waits_for[stencil-sm_9",
    "cost/test_sass.py::test_a_load_sets_a_barrier_that_its_consumer_waits_for[tile-sm_12",
    "cost/test_sass.py::test_a_load_sets_a_barrier_that_its_consumer_waits_for[tile-sm_9",
    "cost/test_sass.py::test_listings[quotient-sm_9",
    "cost/test_sass.py::test_listings[tile-sm_9",
    "cost/test_sass.py::test_sizes_are_those_that_ptxas_prints[sm_1",
    "cost/test_sass.py::test_sizes_are_those_that_ptxas_prints[sm_7",
    "cost/test_sass.py::test_sizes_are_those_that_ptxas_prints[sm_86",
    "cost/test_sass.py::test_sizes_are_those_that_ptxas_prints[sm_89",
    "cost/test_sass.py::test_sizes_are_those_that_ptxas_prints[sm_90",
    "emulator/test_differential.py::test_random_programs[1",
    "emulator/test_differential.py::test_random_programs[2",
    "emulator/test_differential.py::test_random_programs[3",
    "emulator/test_differential.py::test_random_programs[4",
    "emulator/test_differential.py::test_random_programs[5",
    "kernelgen/test_uniform.py::test_operator[sincos",
    "kernelgen/test_uniform.py::test_operator[tricubic",
    "rewrites/test_bank_choice.py::test_no_more_is_added_than_estimated[bitonic",
    "rewrites/test_bank_choice.py::test_no_more_is_added_than_estimated[dct",
    "rewrites/test_bank_choice.py::test_no_more_is_added_than_estimated[dynamic",
    "rewrites/test_bank_choice.py::test_no_more_is_added_than_estimated[lu",
    "rewrites/test_bank_choice.py::test_no_more_is_added_than_estimated[matmul",
    "rewrites/test_bank_choice.py::test_no_more_is_added_than_estimated[reduction",
    "rewrites/test_bank_choice.py::test_no_more_is_added_than_estimated[scan",
    "rewrites/test_bank_choice.py::test_no_more_is_added_than_estimated[transpose",
    "rewrites/test_bank_choice.py::test_tiles_of_the_corpus[clang",
    "rewrites/test_bank_choice.py::test_tiles_of_the_corpus[llvm",
    "rewrites/test_bank_choice.py::test_tiles_of_the_corpus[nvcc13.0/feat_unrolls_sm_1",
    "rewrites/test_bank_choice.py::test_tiles_of_the_corpus[nvcc13.0/feat_unrolls_sm_7",
    "rewrites/test_bank_choice.py::test_tiles_of_the_corpus[nvrtc",
    "rewrites/test_loop_ranges.py::test_validate_alone_refuses_mutants[another",
    "rewrites/test_loop_ranges.py::test_validate_alone_refuses_mutants[store dropped",
    "rewrites/test_loop_ranges.py::test_validate_alone_refuses_mutants[sum forgotten",
    "rewrites/test_read_only_loads.py::test_validate_alone_refuses_mutants[z_march",
    "rewrites/test_read_only_loads.py::test_validate_refuses_what_needs_a_limit_that_is_not_tested[column_scale",
    "rewrites/test_read_only_loads.py::test_validate_refuses_what_needs_a_limit_that_is_not_tested[z",
    "rewrites/test_real.py::test_nothing_is_given_up[gccraw",
    "rewrites/test_real.py::test_nothing_is_given_up[numba_stencil",
    "rewrites/test_real.py::test_nothing_is_given_up[nvcc_arithmetic_sm_80",
    "rewrites/test_real.py::test_nothing_is_given_up[nvcc_stencil_G_sm_75",
    "rewrites/test_real.py::test_nothing_is_given_up[nvrtc",
    "rewrites/test_real.py::test_nothing_is_given_up[triton_product_sm_90",
    "rewrites/test_scalar_replacement.py::test_results_agree_wherever_the_arrays_lie[z_march",
    "rewrites/test_strength_iterations.py::test_both_copies_of_a_kernel_have_it[stencil-clang",
    "rewrites/test_vectorize_runs.py::test_mutants_of_a_loop[%sw_base2",
    "rewrites/test_vectorize_sass.py::test_a_struct[sm_100-8.8",
    "rewrites/test_vectorize_sass.py::test_a_struct[sm_120",
    "sass/test_sass.py::test_no_branch_comes_into_code_that_had_none[ahead",
    "sass/test_sass.py::test_no_branch_comes_into_code_that_had_none[doubles",
    "sass/test_sass.py::test_no_branch_comes_into_code_that_had_none[five-paper-sm_7",
    "sass/test_sass.py::test_no_branch_comes_into_code_that_had_none[five-paper-sm_9",
    "sass/test_sass.py::test_no_branch_comes_into_code_that_had_none[guarded-paper-sm_8",
    "sass/test_sass.py::test_no_branch_comes_into_code_that_had_none[guarded-paper-sm_9",
    "sass/test_sass.py::test_no_branch_comes_into_code_that_had_none[thirteen",
    "sass/test_sass.py::test_uniform_loops_keep_shuffles_bare[gaussblur",
    "sass/test_sass.py::test_uniform_loops_keep_shuffles_bare[lapgsrb",
    "sass/test_sass.py::test_uniform_loops_keep_shuffles_bare[matmul-sm_8",
    "sass/test_sass.py::test_uniform_loops_keep_shuffles_bare[matmul-sm_9",
    "shuffle/test_bypass.py::test_guarded_neighbours_run_as_before[block1",
    "shuffle/test_bypass.py::test_guarded_neighbours_run_as_before[block2",
    "shuffle/test_bypass.py::test_guarded_neighbours_run_as_before[block3",
    "shuffle/test_bypass.py::test_guarded_neighbours_run_as_before[block4",
    "shuffle/test_bypass.py::test_guarded_neighbours_run_as_before[block5",
    "shuffle/test_modules.py::test_a_build_for_debuggers_keeps_its_lines[nvcc_stencil_G_sm_75",
    "shuffle/test_modules.py::test_a_build_for_debuggers_keeps_its_lines[nvcc_stencil_lineinfo",
    "shuffle/test_pairs.py::test_wrong_behind_a_guard_is_wrong[guard_read_again",
    "shuffle/test_random.py::test_no_kernel_is_given_up_for_a_fault_of_ours[218",
    "shuffle/test_random.py::test_no_kernel_is_given_up_for_a_fault_of_ours[721",
    "shuffle/test_random.py::test_random_kernels[1",
    "shuffle/test_random.py::test_random_kernels[5",
    "shuffle/test_scopes.py::test_a_kernel_with_nested_scopes[auto-e",
    "shuffle/test_scopes.py::test_a_kernel_with_nested_scopes[auto-p",
    "shuffle/test_scopes.py::test_a_kernel_with_nested_scopes[keep-e",
    "shuffle/test_scopes.py::test_a_kernel_with_nested_scopes[versioned-e",
    "shuffle/test_scopes.py::test_a_kernel_with_nested_scopes[versioned-p",
    "shuffle/test_scopes.py::test_random_kernels_with_scopes[5",
    "shuffle/test_uniform.py::test_allowed[nested, as",
    "shuffle/test_uniform.py::test_allowed[nested, for some lanes",
    "shuffle/test_uniform_random.py::test_random_kernels[0",
    "simt/test_kernelgen.py::test_operator_under_fuzzed_schedules[gaussblur",
    "simt/test_kernelgen.py::test_operator_under_fuzzed_schedules[laplacian",
    "driver/test_hard.py::test_a_hard_kernel[brx",
    "driver/test_hard.py::test_a_hard_kernel[clamp",
    "driver/test_hard.py::test_a_hard_kernel[divs",
    "driver/test_hard.py::test_a_hard_kernel[hash",
    "driver/test_hard.py::test_a_hard_kernel[ifs",
    "driver/test_hard.py::test_a_hard_kernel[irreducible",
    "driver/test_hard.py::test_a_hard_kernel[ldst",
    "driver/test_hard.py::test_a_hard_kernel[neighbours",
    "driver/test_hard.py::test_a_hard_kernel[nest",
    "driver/test_hard.py::test_a_hard_kernel[products",
    "driver/test_hard.py::test_a_hard_kernel[squares",
    "driver/test_hard.py::test_an_address_of_any_depth[5000",
    "driver/test_hard.py::test_bits_values_and_other_lanes_of_a_term[choice-5000",
    "driver/test_hard.py::test_bits_values_and_other_lanes_of_a_term[product-5000",
    "driver/test_hard.py::test_what_is_read_off_a_term[product-5000",
    "driver/test_hard.py::test_what_is_read_off_a_term[wide-5000",
    "validate/test_generic_loads.py::test_what_not_all_lanes_have_from_one[for",
    "validate/test_generic_loads.py::test_what_not_all_lanes_have_from_one[from",
    "validate/test_generic_loads.py::test_what_not_all_lanes_have_from_one[up",
    "validate/test_text_mutants.py::test_a_mutant_is_refused[gameoflife",
    "validate/test_text_mutants.py::test_a_mutant_is_refused[gradient",
    "verify/test_drafts.py::test_what_is_spoilt_does_not[laplacian-farther",
    "verify/test_kernelgen.py::test_every_scheme_and_form_is_proved_equal[tricubic",
    "verify/test_kernelgen.py::test_rewritten_operator_runs_equal[tricubic",
    "verify/test_matrix.py::test_sample[clang",
    "verify/test_matrix.py::test_sample[gradient",
    "verify/test_matrix.py::test_sample[jacobi",
    "verify/test_mutants.py::test_mutants_of_a_way_are_killed[jacobi",
    "verify/test_mutants.py::test_mutants_of_a_way_are_killed[total-halo-uniform",
    "verify/test_mutants.py::test_mutants_are_killed[gaussblur",
    "verify/test_mutants.py::test_mutants_are_killed[laplacian-farther",
    "verify/test_second_solver.py::test_sample_of_proofs_holds_for_cvc5[gaussblur-halo",
    "verify/test_uniform.py::test_spoilt_texts_are_refused[gradient",
    "verify/test_uniform.py::test_spoilt_texts_are_refused[jacobi",
    "verify/test_uniform.py::test_spoilt_texts_are_refused[rows",
    "verify/test_verify.py::test_compilers_kernels_run_on_what_is_invented[nvcc",
    "verify/test_wrap.py::test_without_guards_it_is_wrong[gaussblur",
)
"""How the names of tests begin that take longest among those that are alike."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves the longest of equal tests to the slow runs."""
    for item in items:
        if item.nodeid.partition("tests/")[2].startswith(LONGEST):
            item.add_marker(pytest.mark.slow)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what was found into the golden files; look at the difference afterwards",
    )


_Answer = TypeVar("_Answer")


def _once(ask: Callable[..., _Answer]) -> Callable[..., _Answer]:
    """Asks a real program once for each question; what a test has written may change its answer."""
    answers: dict[tuple[object, ...], _Answer] = {}

    def answered(program: str, *question: Any) -> _Answer:
        if not _is_machine_code(program):
            return ask(program, *question)
        key = (program, *question[:-1])  # but the time limit
        if key not in answers:
            answers[key] = ask(program, *question)
        return answers[key]

    return answered


def _is_machine_code(program: str) -> bool:
    with contextlib.suppress(OSError), Path(program).open("rb") as file:
        return file.read(4) == b"\x7fELF"
    return False


@pytest.fixture(scope="session", autouse=True)
def programs_answer_once() -> Iterator[None]:
    """ptxas and nvdisasm say the same of the same text each time."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (ptxas, disassembly):
            patch.setattr(module, "run", _once(module.run))
        yield


@pytest.fixture
def needs_ptxas() -> None:
    if find.real_ptxas(os.environ) is None:
        pytest.skip("no ptxas")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with the file that holds the expected one."""

    def check(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.write_bytes(text.encode())
        assert path.read_bytes().decode() == text

    return check

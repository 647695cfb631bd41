//! Which way rows are sorted.

use super::RowTasks::{SharedRows, WholeRows};
use super::{SortPlan, SortProblem, plan};
use crate::CpuDevice;
use crate::machine::Machine;
use elinvar_simd::isa::Isa;

#[test]
fn rows_are_sorted_as_the_table_says() {
    let whole =
        |selects, rows_per_task, ns| SortPlan::Rows { selects, tasks: WholeRows { rows_per_task, ns } };
    let shared = |selects| SortPlan::Rows { selects, tasks: SharedRows };
    let rows = [
        // n, rows, first, threads
        (10, 0, 10, 8, SortPlan::Empty, "no rows"),
        (10, 5, 0, 8, SortPlan::Empty, "nothing is wanted"),
        (0, 5, 0, 8, SortPlan::Empty, "empty rows"),
        (1, 5, 1, 8, whole(false, 1024, 2.0), "rows of one element"),
        (10, 100_000, 10, 8, SortPlan::Network, "many short rows"),
        (16, 2, 1, 8, SortPlan::Network, "as long as a network"),
        (16, 1, 16, 8, whole(false, 64, 128.0), "a single short row"),
        (17, 1000, 17, 8, whole(false, 60, 136.0), "longer than a network"),
        (1000, 1000, 1000, 8, whole(false, 1, 18_000.0), "a square"),
        (1000, 1000, 10, 8, whole(true, 1, 6_000.0), "few of many"),
        (1000, 1000, 125, 8, whole(true, 1, 12_000.0), "an eighth"),
        (1000, 1000, 126, 8, whole(false, 1, 12_000.0), "more than an eighth"),
        (511, 1000, 10, 8, whole(false, 2, 3_066.0), "few of not so many"),
        (1 << 16, 7, 1 << 16, 8, shared(false), "fewer long rows than threads"),
        (1 << 16, 8, 1 << 16, 8, whole(false, 1, 2_097_152.0), "a long row for each thread"),
        (1 << 20, 1, 100, 8, shared(true), "few of a long row"),
        (1 << 20, 1, 1 << 20, 1, whole(false, 1, 41_943_040.0), "one thread"),
    ];
    for (n, rows, first, threads, want, why) in rows {
        let machine = Machine::of(&CpuDevice::new(Isa::best(), threads).unwrap());
        assert_eq!(plan(SortProblem { n, rows, first }, &machine), want, "{why}");
    }
}

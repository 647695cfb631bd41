//! Plans as lines, for `ELINVAR_EXPLAIN` and for the table of the tests.

use super::{ArgFoldPlan, ColumnFold, FoldPlan, RowFold, RowScan, ScanPlan};
use crate::reduce::columns::layout::ColumnLayout;
use std::fmt;

/// Are columns side by side, or short rows?
fn form(layout: &ColumnLayout) -> &'static str {
    if layout.grid.upright { "upright" } else { "short" }
}

fn read(in_place: bool) -> &'static str {
    if in_place { "in-place" } else { "copied" }
}

impl fmt::Display for FoldPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FoldPlan::Empty => f.write_str("empty"),
            FoldPlan::Columns(plan) => {
                let (form, read) = (form(&plan.layout), read(plan.reads_in_place));
                match plan.path {
                    ColumnFold::TreeOfSharedLanes => f.write_str("column-tree shared-lanes"),
                    ColumnFold::Tree { columns_per_task } => {
                        write!(f, "column-tree columns_per_task={columns_per_task}")
                    }
                    ColumnFold::TreeOfSharedBlocks => f.write_str("column-tree shared-blocks"),
                    ColumnFold::WholeRows => write!(f, "columns {form} whole-rows read={read}"),
                }
            }
            FoldPlan::Rows { path, from_memory } => {
                match path {
                    RowFold::SharedBlocks => f.write_str("rows shared-blocks")?,
                    RowFold::Short { rows_per_read, rows_per_task } => {
                        write!(f, "rows short rows_per_read={rows_per_read} rows_per_task={rows_per_task}")?;
                    }
                    RowFold::Long { rows_per_task } => write!(f, "rows long rows_per_task={rows_per_task}")?,
                }
                f.write_str(if *from_memory { " from=memory" } else { " from=staged" })
            }
        }
    }
}

impl fmt::Display for ScanPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScanPlan::Empty => f.write_str("empty"),
            ScanPlan::Columns(layout) => write!(f, "columns {}", form(layout)),
            ScanPlan::Rows(RowScan::SharedBlocks) => f.write_str("rows shared-blocks"),
            ScanPlan::Rows(RowScan::Rows { rows_per_read, in_registers }) => {
                let registers = if *in_registers { " in-registers" } else { "" };
                write!(f, "rows rows_per_read={rows_per_read}{registers}")
            }
        }
    }
}

impl fmt::Display for ArgFoldPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgFoldPlan::Columns { layout, chunks_per_task, reads_in_place } => {
                let (form, read) = (form(layout), read(*reads_in_place));
                write!(f, "columns {form} chunks_per_task={chunks_per_task} read={read}")
            }
            ArgFoldPlan::Rows { rows_per_task } => write!(f, "rows rows_per_task={rows_per_task}"),
        }
    }
}

//! Plans as lines, for `ELINVAR_EXPLAIN` and for the table of the tests.

use super::{AverageGradPlan, AveragePlan, MaxPath, MaxPlan};
use crate::pool::windows::EvenWindows;
use std::fmt;

impl fmt::Display for EvenWindows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "even={}..{} step={}", self.from, self.to, self.step)
    }
}

impl fmt::Display for MaxPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            MaxPath::Pairs(windows) => {
                write!(f, "pairs even={}..{} else ", windows.even.start, windows.even.end)?;
            }
            MaxPath::Columns { step } => write!(f, "columns step={step} else ")?,
            MaxPath::Windows => {}
        }
        write!(f, "windows {} planes_per_task={}", self.even, self.planes_per_task)
    }
}

impl fmt::Display for AveragePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AveragePlan::WholePlanes { planes_per_read, planes_per_task, .. } => {
                write!(f, "whole-planes planes_per_read={planes_per_read} planes_per_task={planes_per_task}")
            }
            AveragePlan::Windows { even, planes_per_task } => {
                write!(f, "windows {even} planes_per_task={planes_per_task}")
            }
        }
    }
}

impl fmt::Display for AverageGradPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.is_whole { "whole-planes" } else { "lines" };
        write!(f, "{path} planes_per_task={}", self.planes_per_task)
    }
}

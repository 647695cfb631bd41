//! The capability table: how each backend runs each op. Made by running the ops, not by what anybody declares.
//!
//! A backend is asked for kinds of work, and an op may be one of them or several. What is counted here are the
//! calls that an op makes: none (a view), one (native), or more (composed). A backend that itself composes a kind of
//! work cannot be seen from here.

use crate::filter::Filter;
use crate::golden::Case;
use crate::guard::caught;
use crate::sample;
use crate::twist::{Twist, Twisted, TwistedDevice, Work};
use elinvar_core::{ErrorKind, Result};
use elinvar_ops::args::Args;
use elinvar_ops::{Array, Backend, catalogue};
use elinvar_reference::Reference;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How a backend runs an op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// Layout arithmetic: the backend is not asked for anything.
    View,
    /// One call of the backend.
    Native,
    /// So many calls.
    Composed(usize),
    /// The backend declines.
    Unsupported,
    /// It should run and does not.
    Fails(String),
    /// There is no case to run.
    Unknown,
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Support::View => f.write_str("view"),
            Support::Native => f.write_str("native"),
            Support::Composed(n) => write!(f, "composed of {n}"),
            Support::Unsupported => f.write_str("unsupported"),
            Support::Fails(_) => f.write_str("fails"),
            Support::Unknown => f.write_str("no case"),
        }
    }
}

/// A backend in the table.
struct Column {
    name: &'static str,
    support: fn(&Case) -> Support,
}

impl Column {
    const fn of<B: Backend>() -> Self {
        Column { name: B::NAME, support: support::<B> }
    }
}

/// The backends of the table, from left to right.
const COLUMNS: &[Column] = &[Column::of::<Reference>()];

/// The table in Markdown: a row per op, a column per backend.
///
/// # Errors
/// `Format` if the built-in sample is damaged.
pub fn capabilities() -> Result<String> {
    let cases = sample::cases(&Filter::default())?;
    let names = COLUMNS.iter().map(|c| c.name);
    let mut table = format!("| op | {} |\n", names.collect::<Vec<_>>().join(" | "));
    table += &format!("|---|{}\n", "---|".repeat(COLUMNS.len()));
    for op in catalogue::NAMES {
        let case = cases.iter().find(|c| c.op == *op);
        let cells = COLUMNS.iter().map(|c| case.map_or(Support::Unknown, c.support).to_string());
        table += &format!("| {op} | {} |\n", cells.collect::<Vec<_>>().join(" | "));
    }
    Ok(table)
}

/// How backend `B` runs the op of a case, on its default device.
pub fn support<B: Backend>(case: &Case) -> Support {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    // Constants that an op needs are filled in; that is not what makes it composed.
    let count = move |work: Work| {
        if !work.is_transfer() && work != Work::Fill {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    };
    let device = TwistedDevice::new(Twist::counting(count));
    let run = || -> Result<()> {
        let mut inputs = Vec::new();
        for i in &case.inputs {
            inputs.push((i.role.clone(), Array::<Twisted<B>>::from_host(&device, i.tensor.clone())?));
        }
        catalogue::call(&Args { op: case.op.clone(), inputs, attrs: case.attrs.clone() }).map(|_| ())
    };
    match (caught(run), calls.load(Ordering::Relaxed)) {
        (Ok(Ok(())), 0) => Support::View,
        (Ok(Ok(())), 1) => Support::Native,
        (Ok(Ok(())), n) => Support::Composed(n),
        (Ok(Err(e)), _) if e.kind() == ErrorKind::Unsupported => Support::Unsupported,
        (Ok(Err(e)), _) => Support::Fails(e.message().to_string()),
        (Err(panic), _) => Support::Fails(panic),
    }
}

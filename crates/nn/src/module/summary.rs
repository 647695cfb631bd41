//! The table that `summary()` prints.

use super::{Leaves, Seen};
use elinvar_ops::Backend;

#[derive(Default)]
pub(super) struct Rows {
    rows: Vec<Row>,
    /// The rows of the open modules, outermost first.
    open: Vec<usize>,
}

struct Row {
    depth: usize,
    name: String,
    shown: String,
    /// The module's own weights, without those of its submodules; a shared one counts in each.
    weights: usize,
    /// Has it no weights, buffers or submodules?
    is_empty: bool,
}

impl Rows {
    pub(super) fn take<B: Backend>(&mut self, name: &str, seen: Seen<'_, '_, B>) {
        match seen {
            Seen::Begin(shown) => {
                let shown = shown.to_string();
                if !shown.is_empty() {
                    self.open.iter().for_each(|&i| self.rows[i].is_empty = false);
                }
                self.open.push(self.rows.len());
                let (depth, name) = (self.open.len() - 1, name.rsplit('.').next().unwrap_or(name).to_owned());
                self.rows.push(Row { depth, name, shown, weights: 0, is_empty: true });
            }
            Seen::End => {
                let i = self.open.pop().expect("a module that ends has begun");
                // A list of plain numbers, for example, gets no line.
                if self.rows[i].is_empty && self.rows[i].shown.is_empty() {
                    self.rows.truncate(i);
                }
            }
            Seen::Param(p) => self.holds(p.get().numel()),
            Seen::Buffer(_) => self.holds(0),
            Seen::Factor(..) | Seen::Mode(_) | Seen::Random(_) | Seen::Across(_) => {}
        }
    }
    fn holds(&mut self, weights: usize) {
        if let Some(&i) = self.open.last() {
            self.rows[i].weights += weights;
        }
        self.open.iter().for_each(|&i| self.rows[i].is_empty = false);
    }

    pub(super) fn table<B: Backend>(&self, leaves: &Leaves<'_, B>) -> String {
        let part = |r: &Row| format!("{}{}", "  ".repeat(r.depth.saturating_sub(1)), r.name);
        let weights = |r: &Row| if r.weights == 0 { String::new() } else { grouped(r.weights) };
        let head = ["part".to_owned(), "layer".to_owned(), "weights".to_owned()];
        let body = self.rows.iter().map(|r| [part(r), r.shown.clone(), weights(r)]);
        let cells: Vec<[String; 3]> = std::iter::once(head).chain(body).collect();
        let width = |c: usize| cells.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
        let (w0, w1, w2) = (width(0), width(1), width(2));
        let mut out = String::new();
        for (i, [part, layer, weights]) in cells.iter().enumerate() {
            let line = format!("{part:w0$}  {layer:w1$}  {weights:>w2$}");
            out += line.trim_end();
            out.push('\n');
            if i == 0 {
                out += &"-".repeat(w0 + w1 + w2 + 4);
                out.push('\n');
            }
        }
        let unique = leaves.unique();
        let count = |frozen: bool| {
            unique
                .iter()
                .filter(|(_, p)| p.is_frozen() == frozen)
                .map(|(_, p)| p.get().numel())
                .sum::<usize>()
        };
        let (trained, frozen) = (count(false), count(true));
        let bytes: usize =
            unique.iter().map(|(_, p)| p.get().numel() * p.get().dtype().size()).sum::<usize>()
                + leaves.buffers.iter().map(|(_, b)| b.get().numel() * b.get().dtype().size()).sum::<usize>();
        out += &format!("{} weights", grouped(trained + frozen));
        if frozen > 0 {
            out += &format!(" ({} trained, {} frozen)", grouped(trained), grouped(frozen));
        }
        out += &format!(", {} bytes with buffers\n", grouped(bytes));
        out
    }
}

/// 1234567 as "1 234 567": a comma or dot could be read as a decimal point.
fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(d);
    }
    out
}

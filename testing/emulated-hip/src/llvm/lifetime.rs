//! From which line to which a name is in use, so that columns are used again.
//!
//! Blocks are written in an order in which only loops go back, and a lane runs lines in that order.
//! So a name lives from its line to its last use; one that comes from before a loop and is used in
//! it lives to the loop's end. A phi is written where the blocks before it end.

use super::cursor::{Cursor, Ty};
use std::collections::HashMap;
use std::rc::Rc;

/// A phi, and what it is when coming from a block.
#[derive(Debug)]
pub struct Phi<'a> {
    pub name: &'a str,
    pub ty: Ty,
    /// Of a vector: how many.
    pub count: Option<usize>,
    pub from: Vec<(&'a str, &'a str)>,
}

/// What the lines of a function say of its names.
#[derive(Default)]
pub struct Lifetimes<'a> {
    /// By label.
    pub phis: HashMap<&'a str, Rc<[Phi<'a>]>>,
    /// The names whose last line this is.
    pub ends: HashMap<usize, Vec<&'a str>>,
}

/// The names in a line.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("%v").map(|(at, _)| {
        let rest = &line[at + 2..];
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        &line[at..at + 2 + digits]
    })
}

fn phi(line: &str) -> Result<Option<Phi<'_>>, String> {
    let Some((name, rest)) = line.split_once(" = phi ") else { return Ok(None) };
    let mut c = Cursor::new(rest);
    let (ty, count) = c.vector()?;
    let mut from = Vec::new();
    while c.takes("[") {
        let value = c.word();
        c.wants(",")?;
        c.wants("%")?;
        from.push((value, c.word()));
        c.wants("]")?;
        if !c.takes(",") {
            break;
        }
    }
    c.ends()?;
    Ok(Some(Phi { name, ty, count, from }))
}

impl<'a> Lifetimes<'a> {
    pub fn of(lines: &[&'a str]) -> Result<Lifetimes<'a>, String> {
        let mut of = Lifetimes::default();
        // Where a block begins, and its last line.
        let (mut begins, mut last) = (HashMap::new(), HashMap::new());
        let mut phis: HashMap<&str, Vec<Phi<'_>>> = HashMap::new();
        let mut block = "";
        for (n, &line) in lines.iter().enumerate() {
            if let Some(label) = line.strip_suffix(':') {
                block = label;
                begins.insert(label, n);
            } else if line.starts_with("br ") || line == "ret void" {
                last.insert(block, n);
            }
        }
        let mut life: HashMap<&str, (usize, usize)> = HashMap::new();
        let mut used = |name: &'a str, n: usize| {
            let (first, end) = life.entry(name).or_insert((n, n));
            (*first, *end) = ((*first).min(n), (*end).max(n));
        };
        block = "";
        for (n, &line) in lines.iter().enumerate() {
            if let Some(label) = line.strip_suffix(':') {
                block = label;
            }
            let Some(phi) = phi(line)? else {
                names(line).for_each(|name| used(name, n));
                continue;
            };
            used(phi.name, n);
            for (value, from) in &phi.from {
                let at = *last.get(from).ok_or_else(|| format!("there is no block {from}"))?;
                used(phi.name, at);
                if value.starts_with("%v") {
                    used(value, at);
                }
            }
            phis.entry(block).or_default().push(phi);
        }
        of.phis = phis.into_iter().map(|(label, all)| (label, all.into())).collect();
        // Loops, inner ones first.
        for (n, line) in lines.iter().enumerate().filter(|(_, l)| l.starts_with("br ")) {
            let targets = line.split("label %").skip(1).map(|t| t.split(',').next().unwrap_or(t));
            for begin in targets.filter_map(|t| begins.get(t)).filter(|&&begin| begin < n) {
                for (first, end) in life.values_mut() {
                    if *first < *begin && (*begin..n).contains(&*end) {
                        *end = n;
                    }
                }
            }
        }
        for (name, (_, end)) in life {
            of.ends.entry(end).or_default().push(name);
        }
        Ok(of)
    }
}

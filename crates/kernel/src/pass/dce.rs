//! Dead code elimination: removes instructions without effect whose results are not used.
//!
//! A load is removed, too, if its result is not used; a load out of bounds is a mistake either way.
//! Loops and branches are removed when nothing in them has an effect and their results are not
//! used.

use super::renumber;
use crate::ir::{Kernel, Op, Region};

/// Removes what is not needed.
pub fn dce(k: &mut Kernel) {
    let mut needed = vec![false; k.values.len()];
    // A loop's body reads what the turn before yielded, so one way back may find more to keep.
    loop {
        let before = needed.iter().filter(|&&n| n).count();
        mark(&k.body, &mut needed);
        if needed.iter().filter(|&&n| n).count() == before {
            break;
        }
    }
    sweep(&mut k.body, &needed);
    renumber(k);
}

fn is_needed(op: &Op, results: &[crate::ir::Value], needed: &[bool]) -> bool {
    op.has_effect() || results.iter().any(|v| needed[v.0 as usize])
}

fn mark(r: &Region, needed: &mut [bool]) {
    for inst in r.insts.iter().rev() {
        if !is_needed(&inst.op, &inst.results, needed) {
            continue;
        }
        inst.op.each_operand(&mut |v| needed[v.0 as usize] = true);
        for inner in inst.op.regions() {
            inner.yields.iter().for_each(|v| needed[v.0 as usize] = true);
            mark(inner, needed);
        }
    }
}

fn sweep(r: &mut Region, needed: &[bool]) {
    r.insts.retain(|inst| is_needed(&inst.op, &inst.results, needed));
    for inst in &mut r.insts {
        for inner in inst.op.regions_mut() {
            sweep(inner, needed);
        }
    }
}

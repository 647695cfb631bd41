//! Loop-invariant code motion: moves out of a loop what is the same in each of its iterations.
//!
//! Pure instructions only: they cannot fail, so it does not matter that a loop without iterations
//! now computes them. Branches are left alone: there an instruction may be skipped for a good
//! reason.

use super::renumber;
use crate::ir::{Inst, Kernel, Op, Region};

/// Moves loop-invariant instructions in front of their loops, from the inside out.
pub fn licm(k: &mut Kernel) {
    let mut inside = vec![false; k.values.len()];
    region(&mut k.body, &mut inside);
    renumber(k);
}

fn region(r: &mut Region, inside: &mut [bool]) {
    let insts = std::mem::take(&mut r.insts);
    for mut inst in insts {
        for inner in inst.op.regions_mut() {
            region(inner, inside);
        }
        if let Op::For { body, .. } = &mut inst.op {
            r.insts.extend(take(body, inside));
        }
        r.insts.push(inst);
    }
}

/// Takes out of a loop's body what does not depend on the turn.
fn take(body: &mut Region, inside: &mut [bool]) -> Vec<Inst> {
    body.args.iter().for_each(|v| inside[v.0 as usize] = true);
    let (mut out, mut stay) = (Vec::new(), Vec::new());
    for inst in std::mem::take(&mut body.insts) {
        let mut varies = !inst.op.is_pure();
        inst.op.each_operand(&mut |v| varies |= inside[v.0 as usize]);
        if varies {
            // What regions inside of it define is not visible here.
            inst.results.iter().for_each(|v| inside[v.0 as usize] = true);
            stay.push(inst);
        } else {
            out.push(inst);
        }
    }
    body.insts = stay;
    out
}

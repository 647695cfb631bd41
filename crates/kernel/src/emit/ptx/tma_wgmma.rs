//! PTX: TMA tile loads (`cp.async.bulk.tensor`), barriers in shared memory (`mbarrier`) and Hopper
//! tensor cores (`wgmma`). "PTX ISA", 9.7.9.27, 9.7.13 and 9.7.16.
//!
//! A row of a tile is 128 bytes, and its vectors of 16 bytes are swizzled: vector p of row l is in
//! the place of vector p ^ (l mod 8). TMA stores them so, and wgmma reads them so; both count rows
//! from multiples of 1024 bytes, where tiles begin.
//!
//! What a TMA load has to know of a tensor view is a tensor map, an object of 128 bytes that the
//! driver makes, and a parameter of the entry.
//!
//! Accumulators stay in their registers: a product changes them in place. Between its beginning and
//! its end these registers must not be touched, not even copied, so loops carry them in place too
//! (`control.rs`).

use super::{Emitter, Register};
use crate::ir::{
    Elem, FragmentLayout, Place, Scalar, TILE_ROW_ALIGN, TILE_ROW_BYTES, TmaTile, Value, WGMMA_BLOCK_BYTES,
};

/// Bytes of the terms of one instruction: a quarter of those that a block has.
const MMA_K_BYTES: u32 = 32;
/// The kind of swizzle of 128 bytes, in the last bits of a description.
const SWIZZLE_128B: u64 = 1 << 62;

impl Emitter<'_> {
    /// What comes before everything else: mbarriers are made ready, by one invocation, and for the
    /// engine, too.
    pub(super) fn init_mbarriers(&mut self) {
        if self.k.mbarriers == 0 {
            return;
        }
        let after = self.only_first();
        for i in 0..self.k.mbarriers {
            let at = self.inst(
                Scalar::U32,
                "mov.u32",
                &[&format!("dynamic+{}", self.places.mbarriers + u64::from(i) * 8)],
            );
            self.line(&format!("mbarrier.init.shared::cta.b64 [{at}], 1"));
        }
        self.line("fence.mbarrier_init.release.cluster");
        self.place(&after);
        self.line("bar.sync 0");
    }
    /// From here on only the first invocation, up to where the label is placed.
    fn only_first(&mut self) -> String {
        let after = self.label();
        let index = self.local_index();
        let first = self.inst(Scalar::Bool, "setp.eq.u32", &[&index, "0"]);
        self.line(&format!("@!{first} bra {after}"));
        after
    }
    /// Where a mbarrier is.
    fn mbarrier(&mut self, mbarrier: Value) -> Register {
        let all = self.inst(Scalar::U32, "mov.u32", &[&format!("dynamic+{}", self.places.mbarriers)]);
        let mbarrier = self.one(mbarrier);
        self.inst(Scalar::U32, "mad.lo.u32", &[&mbarrier, "8", &all])
    }

    pub(super) fn tma_load(&mut self, mbarrier: Value, tiles: &[TmaTile]) {
        let mbarrier = self.mbarrier(mbarrier);
        let before = self.in_sight.len();
        let after = self.only_first();
        let bytes: u32 = tiles.iter().map(|f| self.k.views[f.view as usize].bytes()).sum();
        self.line(&format!("mbarrier.arrive.expect_tx.shared::cta.b64 _, [{mbarrier}], {bytes}"));
        for f in tiles {
            let to = self.whole_address(f.to, f.at);
            let map = self.inst(Scalar::U64, "mov.b64", &[&format!("t{}", f.view)]);
            let map = self.inst(Scalar::U64, "cvta.param.u64", &[&map]);
            let [i, line, plane] = f.from.map(|v| self.one(v));
            self.line(&format!(
                "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [{to}], \
                 [{map}, {{{i}, {line}, {plane}}}], [{mbarrier}]"
            ));
        }
        self.forget(before);
        self.place(&after);
    }

    /// Asks again and again: the instruction itself waits for a while.
    pub(super) fn mbarrier_wait(&mut self, mbarrier: Value, phase: Value) {
        let (mbarrier, phase) = (self.mbarrier(mbarrier), self.one(phase));
        let (again, over) = (self.label(), self.scalar_register(Scalar::Bool));
        self.place(&again);
        self.line(&format!("mbarrier.try_wait.parity.shared::cta.b64 {over}, [{mbarrier}], {phase}"));
        self.line(&format!("@!{over} bra {again}"));
    }

    /// A description of a block's first terms for the tensor cores; and what has to be added to it
    /// for the next terms.
    ///
    /// Addresses and distances count in 16 bytes. Lines of eight rounds of terms follow each other
    /// (64 bits, bits 32 to 45); blocks of lines of rows or columns are contiguous (bits 16 to 29,
    /// which is ignored for lines of terms).
    fn block(&mut self, place: Place, at: Value, of_terms: bool) -> (Register, u32) {
        let at = self.whole_address(place, at);
        let at = self.inst(Scalar::U32, "shr.u32", &[&at, "4"]);
        let at = self.inst(Scalar::U32, "and.b32", &[&at, "16383"]);
        let at = self.inst(Scalar::U64, "cvt.u64.u32", &[&at]);
        let (round, block) =
            (u64::from(TILE_ROW_ALIGN * TILE_ROW_BYTES / 16), u64::from(WGMMA_BLOCK_BYTES / 16));
        let line_offset = if of_terms { 1 } else { block };
        let rest = format!("0x{:X}", SWIZZLE_128B | round << 32 | line_offset << 16);
        // Lines of terms are of 16-bit numbers.
        let step = if of_terms { MMA_K_BYTES } else { MMA_K_BYTES / 2 * TILE_ROW_BYTES };
        (self.inst(Scalar::U64, "or.b64", &[&at, &rest]), step / 16)
    }

    pub(super) fn wgmma_ss(
        &mut self,
        [a, b]: [&(FragmentLayout, Place, Value); 2],
        sums: &[Value],
        results: &[Value],
    ) {
        let elem = self.elem(a.1);
        let word = factor(elem);
        let of_terms = [a.0 == FragmentLayout::RowMajor, b.0 == FragmentLayout::ColumnMajor];
        let [(mut x, x_step), (mut w, w_step)] =
            [(a, 0), (b, 1)].map(|((_, p, at), i)| self.block(*p, *at, of_terms[i]));
        let (columns, list, mut adds) = self.begin_sums(sums, results);
        let [a_turned, b_turned] = of_terms.map(|along| u32::from(!along));
        // Others than those of 16 bits cannot be turned, and so nothing is said of it.
        let trans = if elem == Elem::F32 { String::new() } else { format!(", {a_turned}, {b_turned}") };
        let terms = MMA_K_BYTES / elem.size();
        self.line("wgmma.fence.sync.aligned");
        for part in 0..TILE_ROW_BYTES / MMA_K_BYTES {
            if part > 0 {
                adds = self.always();
                x = self.inst(Scalar::U64, "add.u64", &[&x, &x_step.to_string()]);
                w = self.inst(Scalar::U64, "add.u64", &[&w, &w_step.to_string()]);
            }
            self.line(&format!(
                "wgmma.mma_async.sync.aligned.m64n{columns}k{terms}.f32.{word}.{word} {{{list}}}, {x}, {w}, {adds}, 1, \
                 1{trans}"
            ));
        }
        self.line("wgmma.commit_group.sync.aligned");
    }

    /// The columns and the registers of a product's sums, and whether its first part adds to what
    /// stands there: sums of nothing need no zeros. Those that are not in registers of their own
    /// get some.
    fn begin_sums(&mut self, sums: &[Value], results: &[Value]) -> (usize, String, Register) {
        let blank = sums.iter().all(|v| self.blank[v.0 as usize]);
        let mut registers = Vec::new();
        for (&v, &r) in sums.iter().zip(results) {
            let mut own = self.all(v);
            if blank {
                own = own.iter().map(|_| self.scalar_register(Scalar::F32)).collect();
            } else if !self.own[v.0 as usize] {
                own = own.iter().map(|from| self.inst(Scalar::F32, "mov.f32", &[from])).collect();
            }
            registers.extend(own.iter().cloned());
            self.own[r.0 as usize] = true;
            self.values[r.0 as usize] = own;
        }
        let adds = if blank { self.once(Scalar::Bool, "setp.ne.u32", &["0", "0"]) } else { self.always() };
        (16 * sums.len(), registers.join(", "), adds)
    }
    fn always(&mut self) -> Register {
        self.once(Scalar::Bool, "setp.ne.u32", &["1", "0"])
    }

    /// Rows of the left factor are in registers: those of a fragment are those of an instruction.
    /// They may not change before the product was waited for; the fence makes what was put there
    /// before known to it.
    pub(super) fn wgmma_rs(
        &mut self,
        a: [Value; 4],
        b: &(FragmentLayout, Place, Value),
        sums: &[Value],
        results: &[Value],
    ) {
        let (word, of_terms) = (factor(self.elem(b.1)), b.0 == FragmentLayout::ColumnMajor);
        let (mut w, step) = self.block(b.1, b.2, of_terms);
        let (columns, list, mut adds) = self.begin_sums(sums, results);
        let trans = u32::from(!of_terms);
        self.line("wgmma.fence.sync.aligned");
        for (part, rows) in a.into_iter().enumerate() {
            if part > 0 {
                adds = self.always();
                w = self.inst(Scalar::U64, "add.u64", &[&w, &step.to_string()]);
            }
            let rows = self.all(rows).join(", ");
            self.line(&format!(
                "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{word}.{word} {{{list}}}, {{{rows}}}, {w}, {adds}, 1, 1, \
                 {trans}"
            ));
        }
        self.line("wgmma.commit_group.sync.aligned");
    }
}

/// The word for factors.
fn factor(elem: Elem) -> &'static str {
    match elem {
        Elem::BF16 => "bf16",
        Elem::F32 => "tf32",
        _ => "f16",
    }
}

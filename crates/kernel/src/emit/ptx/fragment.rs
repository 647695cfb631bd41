//! PTX: tensor core fragments, `mma.sync.m16n8k16` (of f32 and f64: `m16n8k8`), and `ldmatrix`
//! where the indices allow it.
//!
//! Which lane has which element is written in "PTX ISA", 9.7.15. With g = lane / 4 and t = 2
//! (lane % 4), a lane's registers hold: of a, two neighbours each of (row g, column t), (g + 8, t),
//! (g, t + 8), (g + 8, t + 8); of b, two neighbours along k each of (row t, column g), (t + 8, g);
//! of the accumulators, (g, t), (g, t + 1), (g + 8, t), (g + 8, t + 1). A product of 16 columns is
//! two of 8, next to each other: the registers of b and of the accumulators of the first half come
//! first. Factors of f32 have a register each, with t = lane % 4 and 4 instead of 8 along k;
//! `ldmatrix` takes four of them for a row of eight halves. Those of f64 are laid out as those of
//! f32. Before Hopper a product of them is four of `m8n8k4`, whose lanes have the same elements:
//! rows g and g + 8 by themselves, and of each the terms 0 to 3 before the terms 4 to 7, so the
//! chain is the same.

use super::{Emitter, Register};
use crate::ir::{Elem, Fragment, FragmentLayout, MmaShape, Place, Role, Scalar, Value};
use crate::pass::Unsupported;

/// Where the elements of a fragment are in memory.
struct FragmentAddress {
    place: Place,
    /// The address of the first element, bytes to add to it, and bytes from line to line: registers
    /// of 32 bits for shared memory, of 64 elsewhere.
    base: Register,
    offset: u32,
    pitch: Register,
    /// Bytes from line to line of shared memory, if they are known.
    known: Option<u32>,
    /// Bytes of an element.
    size: u32,
    /// The word for the memory.
    space: &'static str,
    /// What divides the first index and the pitch, in elements.
    multiple: u64,
}

impl Emitter<'_> {
    /// The type of a fragment's registers, and how many there are.
    pub(super) fn fragment_registers(f: Fragment) -> (Scalar, usize) {
        let halves = usize::from(f.n) / 8;
        let factors = if f.elem == Elem::F64 { Scalar::F64 } else { Scalar::U32 };
        match f.role {
            Role::A => (factors, 4),
            Role::B => (factors, 2 * halves),
            Role::C => (f.elem.scalar(), 4 * halves),
        }
    }
    /// That it is one of those that `mma` multiplies.
    pub(super) fn known(&self, f: Fragment) -> Result<(), Unsupported> {
        let fits = match (f.role, [f.m, f.n, f.k]) {
            (Role::A | Role::B, [16, 8 | 16, 16]) => matches!(f.elem, Elem::F16 | Elem::BF16),
            (Role::A | Role::B, [16, 8 | 16, 8]) => f.elem == Elem::F32,
            (Role::C, [16, 8 | 16, 8 | 16]) => f.elem == Elem::F32,
            _ => false,
        };
        let fits = fits || f == MmaShape::F64_FMA_CHAIN.fragment(f.role);
        if fits {
            return Ok(());
        }
        Err(Unsupported(format!("{}: PTX has no {f}", self.k.name)))
    }

    /// This lane's g and t.
    fn lane(&mut self) -> [Register; 2] {
        let index = self.local_index();
        let lane = self.once(Scalar::U32, "and.b32", &[&index, "31"]);
        let g = self.once(Scalar::U32, "shr.u32", &[&lane, "2"]);
        let t = self.once(Scalar::U32, "and.b32", &[&lane, "3"]);
        [g, self.once(Scalar::U32, "shl.b32", &[&t, "1"])]
    }

    fn fragment_address(&mut self, place: Place, at: Value, stride: Value) -> FragmentAddress {
        let multiple = self.indices.power(at).min(self.indices.power(stride));
        let size = self.elem(place).size();
        let (base, offset, space) = self.address(place, at);
        let (terms, number) = self.indices.sum(stride);
        let known =
            (terms.is_empty() && matches!(place, Place::Shared(_))).then(|| number.wrapping_mul(size));
        let (s, stride) = (self.scalar(stride), self.one(stride));
        let bytes = size.to_string();
        let pitch = match (place, s.bits()) {
            (Place::Shared(_), 64) => {
                let stride = self.once(Scalar::U32, "cvt.u32.u64", &[&stride]);
                self.once(Scalar::U32, "mul.lo.u32", &[&stride, &bytes])
            }
            (Place::Shared(_), _) => self.once(Scalar::U32, "mul.lo.u32", &[&stride, &bytes]),
            (Place::Buffer(_), 64) => self.once(Scalar::U64, "mul.lo.s64", &[&stride, &bytes]),
            (Place::Buffer(_), _) => {
                let zero = self.once(Scalar::U64, "mov.b64", &["0"]);
                self.once(Scalar::U64, &format!("mad.wide.{}", super::ty(s)), &[&stride, &bytes, &zero])
            }
        };
        FragmentAddress { place, base, offset, pitch, known, size, space, multiple }
    }
    /// The address of an element, as `register+bytes`: its line, and its place there, a register
    /// and a number each.
    fn element(&mut self, l: &FragmentAddress, line: (&str, u32), place: (&str, u32)) -> String {
        let size = l.size.to_string();
        if let Some(pitch) = l.known {
            // Where a lane's elements are is the same for all fragments of such lines.
            let lane = self.once(Scalar::U32, "mul.lo.u32", &[line.0, &pitch.to_string()]);
            let lane = self.once(Scalar::U32, "mad.lo.u32", &[place.0, &size, &lane]);
            let at = self.once(Scalar::U32, "add.u32", &[&l.base, &lane]);
            let (at, offset) = self.near(at, l.offset + line.1 * pitch + place.1 * l.size);
            return format!("{at}+{offset}");
        }
        let (line, place) = (self.plus(line.0, line.1), self.plus(place.0, place.1));
        let at = match l.place {
            Place::Shared(_) => {
                let at = self.once(Scalar::U32, "mad.lo.u32", &[&line, &l.pitch, &l.base]);
                self.once(Scalar::U32, "mad.lo.u32", &[&place, &size, &at])
            }
            Place::Buffer(_) => {
                let line = self.once(Scalar::U64, "cvt.u64.u32", &[&line]);
                let at = self.once(Scalar::U64, "mad.lo.s64", &[&line, &l.pitch, &l.base]);
                self.once(Scalar::U64, "mad.wide.u32", &[&place, &size, &at])
            }
        };
        format!("{at}+{}", l.offset)
    }
    fn plus(&mut self, a: &str, n: u32) -> Register {
        match n {
            0 => a.to_string(),
            n => self.once(Scalar::U32, "add.u32", &[a, &n.to_string()]),
        }
    }

    pub(super) fn fragment_load(
        &mut self,
        f: Fragment,
        order: FragmentLayout,
        p: Place,
        at: Value,
        stride: Value,
    ) -> Result<Vec<Register>, Unsupported> {
        self.known(f)?;
        let l = self.fragment_address(p, at, stride);
        if f.role == Role::C {
            return Ok(self.sums(f, order, &l, None));
        }
        // The first column of each register, and its first row: for a (row, k), for b (column, k).
        let apart = u32::from(f.k) / 2;
        let corners: Vec<[u32; 2]> = match f.role {
            Role::A => (0..4).map(|i| [8 * (i % 2), apart * (i / 2)]).collect(),
            Role::B | Role::C => (0..u32::from(f.n) / 4).map(|i| [8 * (i / 2), apart * (i % 2)]).collect(),
        };
        // Do neighbours along k are contiguous?
        let along = (f.role == Role::A) == (order == FragmentLayout::RowMajor);
        // A row of 8 elements has to begin at a multiple of 16 bytes. Of f32 it has 4, which cannot
        // be transposed; of f64 it would have 2.
        let wide = matches!(f.elem, Elem::F32 | Elem::F64);
        let whole = l.multiple * u64::from(l.size) >= 16 && (along || !wide) && f.elem != Elem::F64;
        let [g, t] = self.lane();
        let raw = match (p, wide) {
            (Place::Shared(_), _) if whole => self.load_matrices(&l, &corners, along),
            (Place::Shared(_) | Place::Buffer(_), true) => {
                let t = self.once(Scalar::U32, "shr.u32", &[&t, "1"]);
                corners.iter().map(|&[line, k]| self.single(&l, [&g, &t], [line, k], along)).collect()
            }
            (Place::Shared(_) | Place::Buffer(_), false) => {
                corners.iter().map(|&[line, k]| self.pair(&l, [&g, &t], [line, k], along)).collect()
            }
        };
        Ok(if f.elem == Elem::F32 { raw.iter().map(|r| self.tf32(r)).collect() } else { raw })
    }

    /// 32 bits as a factor.
    fn tf32(&mut self, bits: &str) -> Register {
        let float = self.inst(Scalar::F32, "mov.b32", &[bits]);
        self.inst(Scalar::U32, "cvt.rna.tf32.f32", &[&float])
    }

    /// A number of 32 or 64 bits: `k` + t of line `line` + g.
    fn single(
        &mut self,
        l: &FragmentAddress,
        [g, t]: [&str; 2],
        [line, k]: [u32; 2],
        along: bool,
    ) -> Register {
        let (line, k) = ((g, line), (t, k));
        let at = if along { self.element(l, line, k) } else { self.element(l, k, line) };
        let (s, ty) = if l.size == 8 { (Scalar::F64, "f64") } else { (Scalar::U32, "b32") };
        self.inst(s, &format!("ld.{}.{ty}", l.space), &[&format!("[{at}]")])
    }

    /// Two neighbours along k, from `k` + t on, of line `line` + g (a row of a, a column of b).
    fn pair(&mut self, l: &FragmentAddress, [g, t]: [&str; 2], [line, k]: [u32; 2], along: bool) -> Register {
        if along && l.multiple >= 2 {
            let at = self.element(l, (g, line), (t, k));
            return self.inst(Scalar::U32, &format!("ld.{}.b32", l.space), &[&format!("[{at}]")]);
        }
        let halves = [0, 1].map(|n| {
            let (line, k) = ((g, line), (t, k + n));
            let at = if along { self.element(l, line, k) } else { self.element(l, k, line) };
            let half = self.register(super::Class::Half);
            self.line(&format!("ld.{}.b16 {half}, [{at}]", l.space));
            half
        });
        self.inst(Scalar::U32, "mov.b32", &[&format!("{{{}, {}}}", halves[0], halves[1])])
    }

    /// Two or four matrices of 8 x 8: lanes 8 i to 8 i + 7 say where the lines of the i-th are.
    /// What is not along k is transposed on the way.
    fn load_matrices(&mut self, l: &FragmentAddress, corners: &[[u32; 2]], along: bool) -> Vec<Register> {
        let index = self.local_index();
        let row = self.once(Scalar::U32, "and.b32", &[&index, "7"]);
        // 8 for the second and fourth matrix, and 8 for the third and fourth.
        let second = self.once(Scalar::U32, "and.b32", &[&index, "8"]);
        let third = self.once(Scalar::U32, "shr.u32", &[&index, "1"]);
        let third = self.once(Scalar::U32, "and.b32", &[&third, "8"]);
        // How far the corners are moved by each: the second's corner says along what.
        let [first_side, _] = corners[1];
        let (mut line, mut k) = if first_side == 8 { (second, third) } else { (third, second) };
        if l.size == 4 {
            k = self.once(Scalar::U32, "shr.u32", &[&k, "1"]);
        }
        if corners.len() == 2 {
            // Lanes of a third and a fourth matrix say nothing.
            line = self.once(Scalar::U32, "mov.b32", &["0"]);
        }
        let at = if along {
            let line = self.once(Scalar::U32, "add.u32", &[&line, &row]);
            self.element(l, (&line, 0), (&k, 0))
        } else {
            let k = self.once(Scalar::U32, "add.u32", &[&k, &row]);
            self.element(l, (&k, 0), (&line, 0))
        };
        let to: Vec<Register> = corners.iter().map(|_| self.scalar_register(Scalar::U32)).collect();
        let (count, trans) = (corners.len(), if along { "" } else { ".trans" });
        self.line(&format!(
            "ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{}}}, [{at}]",
            to.join(", ")
        ));
        to
    }

    /// Sums from memory, or to it.
    fn sums(
        &mut self,
        f: Fragment,
        order: FragmentLayout,
        l: &FragmentAddress,
        from: Option<&[Register]>,
    ) -> Vec<Register> {
        let [g, t] = self.lane();
        let mut all = Vec::new();
        // Neighbours along a row are contiguous, and so that two can be accessed at once.
        let twos = order == FragmentLayout::RowMajor && l.multiple >= 2;
        let (s, ty) = (f.elem.scalar(), super::ty(f.elem.scalar()));
        for half in 0..u32::from(f.n) / 8 {
            for below in 0..2 {
                let row = (g.as_str(), 8 * below);
                let first = all.len();
                let registers: [Register; 2] = match from {
                    Some(from) => [from[first].clone(), from[first + 1].clone()],
                    None => [0, 1].map(|_| self.scalar_register(s)),
                };
                let access = |e: &mut Self, registers: &str, vector: &str, column: u32| {
                    let column = (t.as_str(), column);
                    let at = match order {
                        FragmentLayout::RowMajor => e.element(l, row, column),
                        FragmentLayout::ColumnMajor => e.element(l, column, row),
                    };
                    match from {
                        Some(_) => e.line(&format!("st.{}{vector}.{ty} [{at}], {registers}", l.space)),
                        None => e.line(&format!("ld.{}{vector}.{ty} {registers}, [{at}]", l.space)),
                    }
                };
                let column = 8 * half;
                if twos {
                    let [a, b] = &registers;
                    access(self, &format!("{{{a}, {b}}}"), ".v2", column);
                } else {
                    access(self, &registers[0], "", column);
                    access(self, &registers[1], "", column + 1);
                }
                all.extend(registers);
            }
        }
        all
    }

    pub(super) fn fragment_fill(&mut self, f: Fragment, v: Value) -> Result<Vec<Register>, Unsupported> {
        self.known(f)?;
        let (value, (_, count)) = (self.one(v), Self::fragment_registers(f));
        let one = match f.elem {
            Elem::F32 if f.role == Role::C => value,
            Elem::F64 => value,
            Elem::F32 => self.tf32(&value),
            Elem::F16 => {
                let half = self.half_of(&value);
                self.inst(Scalar::U32, "mov.b32", &[&format!("{{{half}, {half}}}")])
            }
            _ => {
                let half = self.bf16_of(&value);
                self.inst(Scalar::U32, "mov.b32", &[&format!("{{{half}, {half}}}")])
            }
        };
        Ok(vec![one; count])
    }

    /// The numbers are where a fragment has them; those of a factor are rounded in pairs, the first
    /// of which is the lower half.
    pub(super) fn fragment_compose(
        &mut self,
        f: Fragment,
        all: &[Value],
    ) -> Result<Vec<Register>, Unsupported> {
        self.known(f)?;
        let numbers: Vec<Register> = all.iter().flat_map(|&v| self.all(v)).collect();
        let word = match (f.role, f.elem) {
            (Role::C, _) => return Ok(numbers),
            (Role::A | Role::B, Elem::BF16) => "bf16x2",
            (Role::A | Role::B, _) => "f16x2",
        };
        let pair = |p: &[Register]| self.inst(Scalar::U32, &format!("cvt.rn.{word}.f32"), &[&p[1], &p[0]]);
        Ok(numbers.chunks(2).map(pair).collect())
    }

    pub(super) fn fragment_mul_add(
        &mut self,
        a: Value,
        b: Value,
        c: Value,
    ) -> Result<Vec<Register>, Unsupported> {
        let (shape, word) = match self.fragment(a).elem {
            Elem::F64 => return Ok(self.f64_fma_chain(&self.all(a), &self.all(b), &self.all(c))),
            Elem::BF16 => ("m16n8k16", "bf16"),
            Elem::F32 => ("m16n8k8", "tf32"),
            _ => ("m16n8k16", "f16"),
        };
        let (a, b, c) = (self.all(a).join(", "), self.all(b), self.all(c));
        let mut all = Vec::new();
        for (b, c) in b.chunks(2).zip(c.chunks(4)) {
            let to: Vec<Register> = (0..4).map(|_| self.scalar_register(Scalar::F32)).collect();
            self.line(&format!(
                "mma.sync.aligned.{shape}.row.col.f32.{word}.{word}.f32 {{{}}}, {{{a}}}, {{{}}}, {{{}}}",
                to.join(", "),
                b.join(", "),
                c.join(", ")
            ));
            all.extend(to);
        }
        Ok(all)
    }

    /// c + a * b of f64.
    fn f64_fma_chain(&mut self, a: &[Register], b: &[Register], c: &[Register]) -> Vec<Register> {
        let whole = self.f64_mma;
        let mut product = |shape: &str, a: &[Register], b: &[Register], c: &[Register]| {
            let to: Vec<Register> = c.iter().map(|_| self.scalar_register(Scalar::F64)).collect();
            let list = |all: &[Register]| format!("{{{}}}", all.join(", "));
            let operands = [&to[..], a, b, c].map(list).join(", ");
            self.line(&format!("mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64 {operands}"));
            to
        };
        if whole {
            return product("m16n8k8", a, b, c);
        }
        let mut rows = |below: usize| {
            let first = product("m8n8k4", &a[below..][..1], &b[..1], &c[2 * below..][..2]);
            product("m8n8k4", &a[below + 2..][..1], &b[1..], &first)
        };
        [0, 1].map(&mut rows).concat()
    }

    pub(super) fn fragment_store(
        &mut self,
        order: FragmentLayout,
        p: Place,
        at: Value,
        stride: Value,
        v: Value,
    ) {
        let (l, f, from) = (self.fragment_address(p, at, stride), self.fragment(v), self.all(v));
        self.sums(f, order, &l, Some(&from));
    }
}

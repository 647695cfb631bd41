//! LLVM IR: fragments of matrix units, by MFMA and WMMA.
//!
//! Which lane has which element is written in the ISA documents ("Matrix Arithmetic Instructions"
//! of CDNA 3, "Wave Matrix Multiply Accumulate" of RDNA 3 and 4) and told by AMD's matrix
//! instruction calculator. In all of them, with g = lane % 16 and h = lane / 16, a lane has
//! elements of row g of the left factor, of column g of the right one, and of column g of the sums.
//! Where along the other side its element e is, differs ([`Spread`]):
//!
//! | | terms of factors | rows of sums |
//! |---|---|---|
//! | `v_mfma_f32_16x16x16` f16, bf16 | 4 h + e | 4 h + e |
//! | `v_mfma_f32_16x16x4` f32, twice | h + 4 e | 4 h + e |
//! | `v_wmma_f32_16x16x16`, RDNA 3 | e (both halves of the wave have all) | h + 2 e |
//! | `v_wmma_f32_16x16x16`, RDNA 4 | 8 h + e | 8 h + e |
//!
//! A fragment is one vector. Factors of f32 are rounded to tf32 where they are loaded, as
//! everywhere; the unit then multiplies them exactly.

use super::memory::{elem_type, pointer};
use super::target::MatrixUnits;
use super::{Assembler, Operand};
use crate::ir::{Elem, Fragment, FragmentLayout, Place, Role, Scalar, Value};
use crate::pass::Unsupported;

/// Rows and columns of sums.
const SIDE: u8 = 16;

/// Where elements of a lane are: `of_half` h + `of_element` e, for e below `elements`.
#[derive(Clone, Copy)]
struct Spread {
    elements: u32,
    of_half: u32,
    of_element: u32,
}

/// Where the elements of a fragment are for a lane, and how many are neighbours.
struct Corner {
    place: Place,
    /// The index of the lane's first element, and how far it is to the next one (a number, or a
    /// register).
    first: Operand,
    next: Result<u32, Operand>,
    /// What divides the first index.
    aligned: u32,
}

impl Assembler<'_> {
    /// The vector that a fragment is.
    pub(super) fn fragment_type(&self, f: Fragment) -> String {
        let elements = self.spread(f).elements;
        format!("<{elements} x {}>", elem_type(f.elem))
    }

    fn spread(&self, f: Fragment) -> Spread {
        let spread = |elements, of_half, of_element| Spread { elements, of_half, of_element };
        match (self.target.arch.matrix_units(), f.role) {
            (MatrixUnits::Mfma, Role::A | Role::B) if f.elem == Elem::F32 => spread(u32::from(f.k) / 4, 1, 4),
            (MatrixUnits::Mfma, _) => spread(4, 4, 1),
            (MatrixUnits::Wmma, Role::A | Role::B) => spread(16, 0, 1),
            (MatrixUnits::Wmma, Role::C) => spread(8, 1, 2),
            (MatrixUnits::WmmaHalves | MatrixUnits::None, _) => spread(8, 8, 1),
        }
    }

    /// That it is one of those that the target multiplies.
    pub(super) fn check_fragment(&self, f: Fragment) -> Result<(), Unsupported> {
        let (arch, name) = (self.target.arch, self.target.arch.name());
        let lanes = if arch.matrix_units() == MatrixUnits::Mfma { 64 } else { 32 };
        if arch.matrix_units() == MatrixUnits::None {
            return self.unsupported(&format!("{name} has no matrix units"));
        }
        if self.subgroup() != lanes || self.target.wave != lanes {
            return self.unsupported(&format!(
                "{name} multiplies fragments by waves of {lanes} lanes, and the kernel's subgroups have {}",
                self.subgroup()
            ));
        }
        let known = arch.mma_shapes().iter().any(|shape| {
            let of_sums = f.role == Role::C && [f.m, f.n, f.k] == shape.shape && f.elem == Elem::F32;
            of_sums || (f.role != Role::C && f == shape.fragment(f.role))
        });
        if known && [f.m, f.n] == [SIDE; 2] {
            return Ok(());
        }
        self.unsupported(&format!("{name} has no {f}"))
    }

    /// This lane's g and h.
    fn lane(&mut self) -> [Operand; 2] {
        let lane = self.lane_of_wave();
        [self.inst(&format!("and i32 {lane}, 15")), self.inst(&format!("lshr i32 {lane}, 4"))]
    }

    /// Where this lane's elements are.
    fn corner(
        &mut self,
        f: Fragment,
        order: FragmentLayout,
        place: Place,
        [at, stride]: [Value; 2],
    ) -> Corner {
        let spread = self.spread(f);
        let power = self.indices.power(at).min(self.indices.power(stride));
        let (at, stride) = (self.index(place, at), self.index(place, stride));
        let int = pointer(place).1;
        let [g, h] = self.lane();
        let along = self.inst(&format!("mul i32 {h}, {}", spread.of_half));
        let [mut g, mut along] = [g, along];
        if int == "i64" {
            [g, along] = [g, along].map(|v| self.inst(&format!("zext i32 {v} to i64")));
        }
        // Is the lane's other side, along which its elements are, the one of neighbours?
        let neighbours = (f.role == Role::A) == (order == FragmentLayout::RowMajor);
        let (line, inner) = if neighbours { (g, along) } else { (along, g) };
        let line = self.inst(&format!("mul {int} {line}, {stride}"));
        let first = self.inst(&format!("add {int} {at}, {line}"));
        let first = self.inst(&format!("add {int} {first}, {inner}"));
        let next = match (neighbours, spread.of_element) {
            (true, n) => Ok(n),
            (false, 1) => Err(stride),
            (false, n) => Err(self.inst(&format!("mul {int} {stride}, {n}"))),
        };
        let offset = if spread.of_half == 0 { spread.elements } else { spread.of_half };
        let aligned =
            if neighbours { power.min(u64::from(offset & offset.wrapping_neg())) as u32 } else { 1 };
        Corner { place, first, next, aligned }
    }
    /// The index of an element of this lane.
    fn element(&mut self, c: &Corner, e: u32) -> Operand {
        let int = pointer(c.place).1;
        let step = match (&c.next, e) {
            (_, 0) => return c.first.clone(),
            (Ok(n), _) => (n * e).to_string(),
            (Err(n), 1) => n.clone(),
            (Err(n), _) => self.inst(&format!("mul {int} {n}, {e}")),
        };
        self.inst(&format!("add {int} {}, {step}", c.first))
    }

    pub(super) fn fragment_load(
        &mut self,
        f: Fragment,
        order: FragmentLayout,
        p: Place,
        at: [Value; 2],
    ) -> Result<Operand, Unsupported> {
        self.check_fragment(f)?;
        let (c, count) = (self.corner(f, order, p, at), self.spread(f).elements);
        let mut raw = Vec::new();
        if c.next == Ok(1) {
            raw = self.load_raw(p, &c.first, count as usize, c.aligned);
        } else {
            for e in 0..count {
                let index = self.element(&c, e);
                raw.extend(self.load_raw(p, &index, 1, 1));
            }
        }
        if f.elem == Elem::F32 && f.role != Role::C {
            raw = raw.iter().map(|r| self.tf32(r)).collect();
        }
        Ok(self.vector(elem_type(f.elem), &raw))
    }

    /// A factor of f32: ten bits behind the point, ties away from zero.
    fn tf32(&mut self, v: &str) -> Operand {
        let bits = self.inst(&format!("bitcast float {v} to i32"));
        let more = self.inst(&format!("add i32 {bits}, 4096"));
        let cut = self.inst(&format!("and i32 {more}, -8192"));
        let number = self.inst(&format!("bitcast i32 {cut} to float"));
        let nan = self.inst(&format!("fcmp uno float {v}, 0.0"));
        self.select(Scalar::F32, &nan, v, &number)
    }

    pub(super) fn fragment_fill(&mut self, f: Fragment, v: Value) -> Result<Operand, Unsupported> {
        self.check_fragment(f)?;
        let v = self.one(v);
        let one = match (f.role, f.elem) {
            (Role::A | Role::B, Elem::F32) => self.tf32(&v),
            (_, elem) => self.narrowed(elem, &v),
        };
        let count = self.spread(f).elements as usize;
        Ok(self.vector(elem_type(f.elem), &vec![one; count]))
    }

    pub(super) fn fragment_mul_add(&mut self, a: Value, b: Value, c: Value) -> Operand {
        let (f, sums) = (self.fragment(a), self.part_type(c));
        let factors = self.part_type(a);
        let [a, b, c] = [a, b, c].map(|v| self.one(v));
        let bf16 = f.elem == Elem::BF16;
        let modes = ("i32 immarg", "0");
        match (self.target.arch.matrix_units(), f.elem) {
            (MatrixUnits::Mfma, Elem::F32) => {
                let mut sum = c;
                for e in 0..f.k / 4 {
                    let [x, y] =
                        [&a, &b].map(|v| self.inst(&format!("extractelement {factors} {v}, i32 {e}")));
                    let operands = [("float", &x[..]), ("float", &y), (&sums, &sum), modes, modes, modes];
                    sum = self.call("llvm.amdgcn.mfma.f32.16x16x4f32", &sums, &operands);
                }
                sum
            }
            (MatrixUnits::Mfma, _) => {
                let name = if bf16 { "bf16.1k" } else { "f16" };
                let operands = [(&factors[..], &a[..]), (&factors, &b), (&sums, &c), modes, modes, modes];
                self.call(&format!("llvm.amdgcn.mfma.f32.16x16x16{name}"), &sums, &operands)
            }
            (MatrixUnits::Wmma | MatrixUnits::WmmaHalves | MatrixUnits::None, _) => {
                let (name, int) = if bf16 { ("bf16", 'i') } else { ("f16", 'f') };
                let count = self.spread(f).elements;
                let name = format!("llvm.amdgcn.wmma.f32.16x16x16.{name}.v8f32.v{count}{int}16");
                self.call(&name, &sums, &[(&factors, &a), (&factors, &b), (&sums, &c)])
            }
        }
    }

    pub(super) fn fragment_store(&mut self, order: FragmentLayout, p: Place, at: [Value; 2], v: Value) {
        let (f, t) = (self.fragment(v), self.part_type(v));
        let (c, count, v) = (self.corner(f, order, p, at), self.spread(f).elements, self.one(v));
        let raw: Vec<Operand> =
            (0..count).map(|e| self.inst(&format!("extractelement {t} {v}, i32 {e}"))).collect();
        if c.next == Ok(1) {
            return self.store_raw(p, &c.first, &raw, c.aligned);
        }
        for (e, one) in raw.into_iter().enumerate() {
            let index = self.element(&c, e as u32);
            self.store_raw(p, &index, &[one], 1);
        }
    }
}

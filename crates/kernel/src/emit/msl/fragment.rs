//! MSL: fragments, as `simdgroup_matrix` of 8 by 8: larger ones are several, named row by row.
//!
//! Sums are f32, and so are what is added on the way. Factors of f32 are not rounded to fewer bits:
//! the unit multiplies them as they are.

use super::{MslPrinter, functions::Function};
use crate::ir::{Elem, Fragment, FragmentLayout, Op, Place, Type, Value};
use crate::pass::Unsupported;

/// Rows and columns of a matrix.
const SIDE: usize = 8;

/// What the numbers of a matrix are.
fn number(e: Elem) -> &'static str {
    match e {
        Elem::F16 => "half",
        Elem::BF16 => "bfloat",
        Elem::F32 => "float",
        _ => unreachable!("the verifier knows no fragments of {e}, or they are refused"),
    }
}

/// Rows and columns of matrices.
fn grid(f: Fragment) -> [usize; 2] {
    let (rows, columns) = f.shape();
    [rows / SIDE, columns / SIDE]
}

/// How many matrices a fragment is.
pub(super) fn count(f: Fragment) -> usize {
    grid(f).into_iter().product()
}

/// The type of one of them.
pub(super) fn type_name(f: Fragment) -> String {
    format!("simdgroup_matrix<{}, 8, 8>", number(f.elem))
}

impl MslPrinter<'_> {
    /// That all fragments are what the language has, in SIMD-groups of the device.
    ///
    /// # Errors
    /// [`Unsupported`] for what it has not.
    pub(super) fn check_fragments(&self) -> Result<(), Unsupported> {
        let lacks = |what: String| Err(Unsupported(format!("{}: {what}", self.k.name)));
        let mut fragments = self.k.values.iter().filter_map(|t| match t {
            Type::Fragment(f) => Some(*f),
            Type::Vector(..) => None,
        });
        let Some(first) = fragments.clone().next() else { return Ok(()) };
        if !self.target.matrices || self.k.subgroup != self.target.subgroup {
            let lanes = self.k.subgroup.unwrap_or(1);
            return lacks(format!("the device has no {first} for subgroups of {lanes}"));
        }
        if self.target.language < 310 && fragments.any(|f| f.elem == Elem::BF16) {
            return lacks("MSL has no bf16 before version 3.1".to_string());
        }
        let mut spread = false;
        self.k.body.each_inst(&mut |i| {
            spread |= matches!(i.op, Op::FragmentExtract(..) | Op::FragmentCompose(..));
        });
        if spread {
            return lacks("MSL does not say which lane has which number of a fragment".to_string());
        }
        Ok(())
    }

    fn fragment(&self, v: Value) -> Fragment {
        match self.k.ty(v) {
            Type::Fragment(f) => f,
            Type::Vector(..) => unreachable!("the verifier has seen to it"),
        }
    }

    /// Where matrix `i`, `j` begins, and how it is told: elements from line to line, and whether
    /// lines are columns.
    fn matrix_at(
        &self,
        e: Elem,
        l: FragmentLayout,
        p: Place,
        [at, stride]: [Value; 2],
        [i, j]: [usize; 2],
    ) -> String {
        let (name, at) = self.place(p, at);
        let stride = self.name(stride);
        let (lines, more, turned) = match l {
            FragmentLayout::RowMajor => (i, j, false),
            FragmentLayout::ColumnMajor => (j, i, true),
        };
        let mut pointer = format!("{name} + {at}");
        if lines > 0 {
            pointer += &format!(" + {} * {stride}", lines * SIDE);
        }
        if more > 0 {
            pointer += &format!(" + {}", more * SIDE);
        }
        // Buffers hold the bits.
        if e == Elem::BF16 {
            pointer = format!("({} bfloat*)({pointer})", self.space(p));
        }
        format!("{pointer}, ulong({stride}), ulong2(0), {turned}")
    }

    pub(super) fn fragment_load(&mut self, r: Value, l: FragmentLayout, p: Place, where_: [Value; 2]) {
        let f = self.fragment(r);
        let columns = grid(f)[1];
        for (n, name) in self.declare(r).iter().enumerate() {
            let at = self.matrix_at(f.elem, l, p, where_, [n / columns, n % columns]);
            self.line(&format!("simdgroup_load({name}, {at});"));
        }
    }

    pub(super) fn fragment_fill(&mut self, r: Value, v: Value) {
        let f = self.fragment(r);
        let x = match f.elem {
            Elem::F16 => format!("half({})", self.name(v)),
            Elem::BF16 => {
                self.calls(Function::Bf16Bits);
                format!("as_type<bfloat>({}({}))", Function::Bf16Bits.name(), self.name(v))
            }
            _ => self.name(v).to_string(),
        };
        for name in self.declare(r) {
            self.line(&format!("{name} = make_filled_simdgroup_matrix<{}, 8, 8>({x});", number(f.elem)));
        }
    }

    /// Terms in ascending order.
    pub(super) fn fragment_mul_add(&mut self, r: Value, [a, b, c]: [Value; 3]) {
        let (columns, terms) = (grid(self.fragment(c))[1], grid(self.fragment(a))[1]);
        let [a, b, c] = [a, b, c].map(|v| self.parts(v));
        for (n, name) in self.declare(r).iter().enumerate() {
            let (i, j) = (n / columns, n % columns);
            for t in 0..terms {
                let before = if t == 0 { &c[n] } else { name };
                let (x, y) = (&a[i * terms + t], &b[t * columns + j]);
                self.line(&format!("simdgroup_multiply_accumulate({name}, {x}, {y}, {before});"));
            }
        }
    }

    pub(super) fn fragment_store(&mut self, l: FragmentLayout, p: Place, where_: [Value; 2], v: Value) {
        let f = self.fragment(v);
        let columns = grid(f)[1];
        for (n, name) in self.parts(v).iter().enumerate() {
            let at = self.matrix_at(f.elem, l, p, where_, [n / columns, n % columns]);
            self.line(&format!("simdgroup_store({name}, {at});"));
        }
    }
}

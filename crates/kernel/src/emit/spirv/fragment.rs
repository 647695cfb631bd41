//! SPIR-V: tensor core fragments, as cooperative matrices (`SPV_KHR_cooperative_matrix`).
//!
//! A module with fragments uses the Vulkan memory model, which they ask for. In it, memory is
//! private to an invocation unless an access says otherwise: those of shared memory do, and
//! barriers make them visible.

use super::Emitter;
use super::code::{Code, CooperativeMatrixLayout, CooperativeMatrixUse, Scope, access, semantics};
use super::module::Word;
use crate::ir::{Elem, Fragment, FragmentLayout, Place, Role, Scalar, Type, Value};
use crate::pass::Unsupported;

impl Emitter<'_> {
    /// Has the kernel fragments?
    pub(super) fn has_fragments(&self) -> bool {
        self.uses.fragments
    }
    /// What loads and stores of a place say of themselves.
    pub(super) fn access(&self, p: Place) -> Option<Word> {
        match p {
            Place::Shared(_) if self.has_fragments() => Some(access::NON_PRIVATE_POINTER),
            Place::Shared(_) | Place::Buffer(_) => None,
        }
    }
    /// What a barrier says besides, of what was stored.
    pub(super) fn availability(&self) -> u32 {
        if self.has_fragments() { semantics::MAKE_AVAILABLE | semantics::MAKE_VISIBLE } else { 0 }
    }

    pub(super) fn fragment_type(&mut self, f: Fragment) -> Word {
        if let Some(&t) = self.types.fragments.get(&f) {
            return t;
        }
        let (rows, columns) = f.shape();
        let usage = match f.role {
            Role::A => CooperativeMatrixUse::MatrixAKHR,
            Role::B => CooperativeMatrixUse::MatrixBKHR,
            Role::C => CooperativeMatrixUse::MatrixAccumulatorKHR,
        };
        let elem = self.elem_word(f.elem);
        let [scope, rows, columns, usage] =
            [Scope::Subgroup as u32, rows as u32, columns as u32, usage as u32].map(|v| self.uint(v));
        let t = self.b.declare(Code::TypeCooperativeMatrixKHR, &[elem, scope, rows, columns, usage]);
        self.types.fragments.insert(f, t);
        t
    }

    fn layout(&mut self, l: FragmentLayout) -> Word {
        self.uint(match l {
            FragmentLayout::RowMajor => CooperativeMatrixLayout::RowMajorKHR as u32,
            FragmentLayout::ColumnMajor => CooperativeMatrixLayout::ColumnMajorKHR as u32,
        })
    }

    /// That all fragments are of elements that the extension has.
    ///
    /// # Errors
    /// [`Unsupported`] for factors of bf16, f32 and f64: of these the extension promises no order.
    pub(super) fn check_fragments(&self) -> Result<(), Unsupported> {
        let other = |t: &Type| match t {
            Type::Fragment(f) if f.role != Role::C && f.elem != Elem::F16 => Some(f.elem),
            Type::Fragment(_) | Type::Vector(..) => None,
        };
        match self.k.values.iter().find_map(other) {
            Some(elem) => self.unsupported(&format!("fragments of {elem} are not emitted as SPIR-V")),
            None => Ok(()),
        }
    }

    pub(super) fn fragment_load(
        &mut self,
        f: Fragment,
        l: FragmentLayout,
        p: Place,
        [at, stride]: [Value; 2],
    ) -> Word {
        let (ty, layout, access) = (self.fragment_type(f), self.layout(l), self.access(p));
        let (pointer, stride) = (self.pointer_to(p, at, 0), self.id(stride));
        let operands = [&[pointer, layout, stride], access.as_slice()].concat();
        self.inst(Code::CooperativeMatrixLoadKHR, ty, &operands)
    }

    pub(super) fn fragment_fill(&mut self, f: Fragment, v: Value) -> Word {
        let (ty, mut v) = (self.fragment_type(f), self.id(v));
        if f.elem.scalar() == Scalar::F32 && f.elem != Elem::F32 {
            let narrow = self.elem_word(f.elem);
            v = self.inst(Code::FConvert, narrow, &[v]);
        }
        self.inst(Code::CompositeConstruct, ty, &[v])
    }

    pub(super) fn fragment_mul_add(&mut self, ty: Type, [a, b, c]: [Value; 3]) -> Word {
        let (ty, [a, b, c]) = (self.word(ty), [a, b, c].map(|v| self.id(v)));
        self.inst(Code::CooperativeMatrixMulAddKHR, ty, &[a, b, c])
    }

    pub(super) fn fragment_store(&mut self, l: FragmentLayout, p: Place, [at, stride]: [Value; 2], v: Value) {
        let (layout, access) = (self.layout(l), self.access(p));
        let (pointer, stride, v) = (self.pointer_to(p, at, 0), self.id(stride), self.id(v));
        let operands = [&[pointer, v, layout, stride], access.as_slice()].concat();
        self.does(Code::CooperativeMatrixStoreKHR, &operands);
    }
}

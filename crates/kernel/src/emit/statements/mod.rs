//! Languages of statements (MSL, WGSL): what their emitters have in common.
//!
//! An instruction is a constant, what branches yield and loops carry are variables, and what a
//! device does not do exactly is a call of a function of the module ([`Helper`]). A target says how
//! its language writes that, and what else an instruction is ([`Language`]).

mod control;
mod helper;
mod legal;

use crate::ir::{
    Binary, Builtin, Compare, Constant, Elem, Fragment, Kernel, Op, Place, Region, Scalar, Type, Value,
};
use crate::pass::{self, Legalize};
pub use helper::Helper;
pub use legal::{check_limits, exceeds, legal};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A word that is 0, which no compiler knows.
pub const ZERO: &str = "params.zero";

/// What a name is declared for.
#[derive(Clone, Copy)]
pub enum Declared {
    Constant,
    Variable,
    /// The index of a loop.
    Counter,
}

/// A target, and what is its language's own.
pub trait Language: Sized {
    /// What is found out about a module while its instructions are printed.
    type State: Default + PartialEq;
    /// The word of a bit cast.
    const BITCAST: &'static str;
    /// What stands around a truth value that is negated.
    const NOT: [&'static str; 2];

    fn type_name(s: Scalar, width: u8) -> String;
    /// The matrices that a fragment is: how many, and the type of each.
    fn matrices(f: Fragment) -> (usize, String);
    fn declaration(what: Declared, ty: &str, name: &str) -> String;
    fn constant(&self, c: Constant) -> String;
    /// What is built in the body of a function; `None` if the operation is the device's own.
    fn helper_body(&self, helper: Helper) -> Option<Legalize>;
    /// The function's name, parameters and type.
    fn helper_head(&self, helper: Helper) -> String;
    /// What it is given behind its operands.
    fn helper_extra(&self) -> Option<&'static str> {
        None
    }
    /// The expression of an instruction that languages have different ones for; `None` if its
    /// statements were printed.
    fn op(p: &mut Printer<'_, Self>, op: &Op, results: &[Value]) -> Option<String>;
}

pub struct Printer<'a, L: Language> {
    pub k: &'a Kernel,
    pub target: &'a L,
    /// Is it a function of a module? Its operations are the target's own.
    pub is_helper: bool,
    /// What a value is called.
    names: Vec<String>,
    /// The bits of values that are constants.
    constants: Vec<Option<Constant>>,
    /// Functions that are called.
    pub helpers: BTreeMap<Helper, String>,
    pub state: L::State,
    pub out: String,
    depth: usize,
}

impl<'a, L: Language> Printer<'a, L> {
    pub fn new(k: &'a Kernel, target: &'a L) -> Self {
        Printer {
            k,
            target,
            is_helper: false,
            names: vec![String::new(); k.values.len()],
            constants: vec![None; k.values.len()],
            helpers: BTreeMap::new(),
            state: L::State::default(),
            out: String::new(),
            depth: 1,
        }
    }

    pub fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{}{text}", "  ".repeat(self.depth));
    }
    pub fn name(&self, v: Value) -> &str {
        &self.names[v.0 as usize]
    }
    fn call(&mut self, v: Value, name: String) {
        self.names[v.0 as usize] = name;
    }
    /// Gives a value its name and what it is.
    fn define(&mut self, v: Value, text: &str) {
        let name = format!("v{}", v.0);
        self.line(&format!("{} = {text};", L::declaration(Declared::Constant, &self.ty(v), &name)));
        self.call(v, name);
    }
    /// Gives a value its name, and declares the variables that it is.
    pub fn declare(&mut self, v: Value) -> Vec<String> {
        self.call(v, format!("v{}", v.0));
        let (parts, ty) = (self.parts(v), self.ty(v));
        for name in &parts {
            self.line(&format!("{};", L::declaration(Declared::Variable, &ty, name)));
        }
        parts
    }
    /// The names of the variables that a value is: one, or the matrices of a fragment.
    pub fn parts(&self, v: Value) -> Vec<String> {
        let name = self.name(v);
        match self.k.ty(v) {
            Type::Vector(..) => vec![name.to_string()],
            Type::Fragment(f) => (0..L::matrices(f).0).map(|i| format!("{name}_{i}")).collect(),
        }
    }
    /// The type of each of them.
    pub fn ty(&self, v: Value) -> String {
        match self.k.ty(v) {
            Type::Vector(s, w) => L::type_name(s, w),
            Type::Fragment(f) => L::matrices(f).1,
        }
    }
    pub fn scalar(&self, v: Value) -> Scalar {
        self.k.ty(v).scalar().expect("no operation on numbers has fragments")
    }
    pub fn width(&self, v: Value) -> u8 {
        self.k.ty(v).width()
    }
    /// What a value always is, if it is a constant.
    pub fn fixed(&self, v: Value) -> Option<Constant> {
        self.constants[v.0 as usize]
    }
    /// A number of a vector, or the one number that there is.
    pub fn element(&self, v: Value, i: u8) -> String {
        match self.width(v) {
            1 => self.name(v).to_string(),
            _ => format!("{}.{}", self.name(v), letter(i)),
        }
    }
    /// A vector of what `f` gives for each number, or that one number.
    pub fn each(&self, s: Scalar, width: u8, f: impl Fn(u8) -> String) -> String {
        if width == 1 {
            return f(0);
        }
        let all: Vec<String> = (0..width).map(f).collect();
        format!("{}({})", L::type_name(s, width), all.join(", "))
    }
    /// What a place of memory holds.
    pub fn elem(&self, p: Place) -> Elem {
        match p {
            Place::Buffer(i) => self.k.buffers[i as usize].elem,
            Place::Shared(i) => self.k.shared[i as usize].elem,
        }
    }
    /// The name of a place, and the index.
    pub fn place(&self, p: Place, at: Value) -> (String, &str) {
        let name = match p {
            Place::Buffer(i) => format!("b{i}"),
            Place::Shared(i) => format!("s{i}"),
        };
        (name, self.name(at))
    }

    /// The call, number by number, of the function that an operation is built as, if it is and this
    /// is not the function itself.
    fn built(&mut self, op: &Op) -> Option<String> {
        let helper = Helper::of(op, |v| self.scalar(v)).filter(|_| !self.is_helper)?;
        let body = self.target.helper_body(helper)?;
        let target = self.target;
        self.helpers.entry(helper).or_insert_with(|| function(helper, body, target));
        let mut operands = Vec::new();
        op.each_operand(&mut |v| operands.push(v));
        let a = operands[0];
        Some(self.each(self.scalar(a), self.width(a), |i| {
            let mut all: Vec<String> = operands.iter().map(|&v| self.element(v, i)).collect();
            all.extend(self.target.helper_extra().map(str::to_string));
            format!("{}({})", helper.name(), all.join(", "))
        }))
    }

    pub fn region(&mut self, r: &Region) {
        for inst in &r.insts {
            let built = self.built(&inst.op);
            if let Some(text) = built.or_else(|| self.op(&inst.op, &inst.results)) {
                self.define(inst.results[0], &text);
            }
        }
    }

    /// The expression of an instruction; `None` if there is nothing to define.
    fn op(&mut self, op: &Op, results: &[Value]) -> Option<String> {
        Some(match op {
            Op::Const(c) => {
                self.constants[results[0].0 as usize] = Some(*c);
                self.target.constant(*c)
            }
            Op::Param(i) => {
                let name = if self.is_helper { format!("x{i}") } else { format!("params.p{i}") };
                self.call(results[0], name);
                return None;
            }
            Op::Builtin(b) => {
                self.call(results[0], builtin(*b));
                return None;
            }
            Op::Fma(a, b, c) => format!("fma({}, {}, {})", self.name(*a), self.name(*b), self.name(*c)),
            Op::Bitcast(to, a) => {
                format!("{}<{}>({})", L::BITCAST, L::type_name(*to, self.width(*a)), self.name(*a))
            }
            Op::Splat(w, a) => {
                self.constants[results[0].0 as usize] = self.fixed(*a);
                format!("{}({})", L::type_name(self.scalar(*a), *w), self.name(*a))
            }
            Op::Compose(all) => {
                self.each(self.scalar(all[0]), all.len() as u8, |i| self.name(all[usize::from(i)]).into())
            }
            Op::Extract(a, i) => self.element(*a, *i),
            Op::Store(_, _, v) if self.is_helper => {
                self.line(&format!("return {};", self.names[v.0 as usize]));
                return None;
            }
            Op::If(c, then, other) => {
                self.branch(*c, [then, other], results);
                return None;
            }
            Op::For { start, end, step, init, body } => {
                self.repeat([*start, *end, *step], init, body, results);
                return None;
            }
            Op::CpAsync { .. } | Op::CpAsyncCommit | Op::CpAsyncWait(_) => {
                unreachable!("copies are lowered before")
            }
            Op::TmaLoad { .. }
            | Op::MbarrierWait(..)
            | Op::WgmmaSs { .. }
            | Op::WgmmaRs { .. }
            | Op::WgmmaWait(_) => unreachable!("kernels with TMA and wgmma are refused"),
            Op::Unary(..)
            | Op::Binary(..)
            | Op::Compare(..)
            | Op::Select(..)
            | Op::Convert(..)
            | Op::FpToSi(_)
            | Op::Load(..)
            | Op::Store(..)
            | Op::Atomic(..)
            | Op::Barrier
            | Op::Shuffle(..)
            | Op::Broadcast(..)
            | Op::Reduce(..)
            | Op::FragmentLoad(..)
            | Op::FragmentFill(..)
            | Op::FragmentMulAdd(..)
            | Op::FragmentExtract(..)
            | Op::FragmentCompose(..)
            | Op::FragmentStore(..) => return L::op(self, op, results),
        })
    }

    /// What is written with an operator between the operands.
    pub fn infix(&self, op: Binary, a: Value, b: Value) -> String {
        let s = self.scalar(a);
        let bool = s == Scalar::Bool;
        let operator = match op {
            Binary::Add => "+",
            Binary::Sub => "-",
            Binary::Mul => "*",
            Binary::Div => "/",
            Binary::Shl => "<<",
            Binary::Shr => ">>",
            Binary::Min if bool => "&",
            Binary::Max if bool => "|",
            Binary::Xor if bool => "!=",
            Binary::And => "&",
            Binary::Or => "|",
            Binary::Xor => "^",
            Binary::Rem | Binary::Min | Binary::Max | Binary::MulHigh | Binary::CopySign => {
                unreachable!("{op:?} of {s} is lowered before")
            }
        };
        format!("{} {operator} {}", self.name(a), self.name(b))
    }

    pub fn compare(&self, op: Compare, a: Value, b: Value) -> String {
        let (x, y) = (self.name(a), self.name(b));
        let bool = self.scalar(a) == Scalar::Bool;
        let not = |x: &str| format!("{}{x}{}", L::NOT[0], L::NOT[1]);
        match op {
            Compare::Eq => format!("{x} == {y}"),
            Compare::Ne => format!("{x} != {y}"),
            // False is less than true.
            Compare::Lt if bool => format!("{} & {y}", not(x)),
            Compare::Le if bool => format!("{} | {y}", not(x)),
            Compare::Gt if bool => format!("{x} & {}", not(y)),
            Compare::Ge if bool => format!("{x} | {}", not(y)),
            Compare::Lt => format!("{x} < {y}"),
            Compare::Le => format!("{x} <= {y}"),
            Compare::Gt => format!("{x} > {y}"),
            Compare::Ge => format!("{x} >= {y}"),
        }
    }
}

/// The function that stands for an operation.
fn function<L: Language>(helper: Helper, body: Legalize, target: &L) -> String {
    let mut k = helper.kernel();
    pass::lower(&mut k, body);
    pass::optimize(&mut k);
    let mut p = Printer::new(&k, target);
    p.is_helper = true;
    p.region(&k.body);
    assert!(p.state == L::State::default(), "{}: it calls no other one", helper.name());
    format!("{} {{\n{}}}\n", target.helper_head(helper), p.out)
}

/// The letter of a vector's number.
fn letter(i: u8) -> &'static str {
    ["x", "y", "z", "w"][usize::from(i)]
}

/// What an invocation knows of itself.
fn builtin(b: Builtin) -> String {
    match b {
        Builtin::GroupId(a) => format!("group_id.{}", letter(a)),
        Builtin::GroupCount(a) => format!("group_count.{}", letter(a)),
        Builtin::LocalId(a) => format!("local_id.{}", letter(a)),
        Builtin::LocalIndex => "local_index".to_string(),
        Builtin::SubgroupLane | Builtin::SubgroupId => unreachable!("computed from the local index"),
    }
}

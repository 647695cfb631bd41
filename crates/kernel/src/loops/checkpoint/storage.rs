//! What a divided loop keeps in memory between launches: words of what it carries, and shared
//! memory.

use super::{Cutter, Level, NUMBERS_PER_LEVEL, words_of};
use crate::ir::{Binary, Builtin, Compare, Constant, Inst, Op, Place, Region, Scalar, Type, Value};

impl Cutter<'_> {
    /// What every launch begins with.
    pub(super) fn begin(&mut self) {
        let zero = self.u32(0);
        for level in 0..self.path.len() {
            let mut number = |i: usize| {
                let at = self.u32((level * NUMBERS_PER_LEVEL + i) as u32);
                self.push(Op::Load(Place::Buffer(0), at, 1), Type::U32)
            };
            let [begin, end, done] = [0, 1, 2].map(&mut number);
            let done = self.less(zero, done);
            self.levels.push(Level { begin, end, done });
        }
        let mut first = Vec::new();
        let mut inner: Option<Value> = None;
        for level in self.levels.clone().into_iter().rev() {
            let here = self.push(Op::Compare(Compare::Eq, level.begin, zero), Type::BOOL);
            let all = inner.map_or(here, |inner| self.binary(Binary::And, inner, here));
            first.push(all);
            inner = Some(all);
        }
        first.reverse();
        self.first = first;
        let [x, y, z] = [0, 1, 2].map(|a| self.push(Op::Builtin(Builtin::GroupId(a)), Type::U32));
        let [nx, ny, nz] = [0, 1, 2].map(|a| self.push(Op::Builtin(Builtin::GroupCount(a)), Type::U32));
        let plane = self.binary(Binary::Mul, ny, z);
        let line = self.binary(Binary::Add, plane, y);
        let line = self.binary(Binary::Mul, line, nx);
        self.group = self.binary(Binary::Add, line, x);
        let groups = self.binary(Binary::Mul, nx, ny);
        let groups = self.binary(Binary::Mul, groups, nz);
        let (each, local) =
            (self.u32(self.invocations), self.push(Op::Builtin(Builtin::LocalIndex), Type::U32));
        self.total = self.binary(Binary::Mul, groups, each);
        let before = self.binary(Binary::Mul, self.group, each);
        self.id = self.binary(Binary::Add, before, local);
        // So that all of it can be kept, whatever the kernel stored.
        if !self.shared.is_empty() {
            self.each_shared(&mut |c, piece, i, _| {
                let zero =
                    c.push(Op::Const(Constant::int(c.shared[piece].0.scalar(), 0)), c.of_shared(piece));
                c.out.push(Inst { op: Op::Store(Place::Shared(piece as u32), i, zero), results: Vec::new() });
            });
            self.barrier();
        }
    }
    fn barrier(&mut self) {
        self.out.push(Inst { op: Op::Barrier, results: Vec::new() });
    }
    fn of_shared(&self, piece: usize) -> Type {
        self.shared[piece].0.scalar().into()
    }
    /// Does something for each element of shared memory: its piece, its index, and where it is
    /// kept.
    fn each_shared(&mut self, f: &mut dyn FnMut(&mut Self, usize, Value, Value)) {
        let mut before = 0;
        let all: u64 = self.shared.iter().map(|&(e, len)| u64::from(len) * words_of(e.scalar())).sum();
        for piece in 0..self.shared.len() {
            let (elem, len) = self.shared[piece];
            let start = self.push(Op::Builtin(Builtin::LocalIndex), Type::U32);
            let [end, step] = [len, self.invocations].map(|n| self.u32(n));
            let outer = std::mem::take(&mut self.out);
            let i = self.value(Type::U32);
            let (each, words) = (self.u32(all as u32), self.u32(words_of(elem.scalar()) as u32));
            let at = self.binary(Binary::Mul, self.group, each);
            let here = self.binary(Binary::Mul, i, words);
            let at = self.binary(Binary::Add, at, here);
            let shift = self.u32(before);
            let at = self.binary(Binary::Add, at, shift);
            f(self, piece, i, at);
            let insts = std::mem::replace(&mut self.out, outer);
            let body = Region { args: vec![i], insts, yields: Vec::new() };
            self.out
                .push(Inst { op: Op::For { start, end, step, init: Vec::new(), body }, results: Vec::new() });
            before += len * words_of(elem.scalar()) as u32;
        }
    }
    /// Keeps what is shared, or brings it back. It is behind what invocations keep.
    pub(super) fn shared(&mut self, back: bool, words: u32) {
        if self.shared.is_empty() {
            return;
        }
        self.barrier();
        let words = self.u32(words);
        let from = self.binary(Binary::Mul, self.total, words);
        let one = self.u32(1);
        self.each_shared(&mut |c, piece, i, at| {
            let (place, ty) = (Place::Shared(piece as u32), c.of_shared(piece));
            let at = c.binary(Binary::Add, from, at);
            let scalar = ty.scalar().unwrap_or(Scalar::U32);
            if back {
                let v = c.number_at(scalar, at, one);
                c.out.push(Inst { op: Op::Store(place, i, v), results: Vec::new() });
            } else {
                let v = c.push(Op::Load(place, i, 1), ty);
                c.keep_number(v, scalar, at, one);
            }
        });
        self.barrier();
    }

    // What is kept

    fn keep_word(&mut self, word: Value, at: Value) {
        self.out.push(Inst { op: Op::Store(Place::Buffer(1), at, word), results: Vec::new() });
    }
    /// Keeps a number in words from `at` on, `apart` from each other.
    fn keep_number(&mut self, v: Value, s: Scalar, at: Value, apart: Value) {
        let word = match s {
            Scalar::Bool => self.convert(Scalar::U32, v),
            Scalar::I32 | Scalar::U32 | Scalar::F32 => self.bitcast(Scalar::U32, v),
            Scalar::I64 | Scalar::U64 | Scalar::F64 => {
                let bits = self.bitcast(Scalar::U64, v);
                let by = self.push(Op::Const(Constant::int(Scalar::U64, 32)), Scalar::U64.into());
                let high = self.binary(Binary::Shr, bits, by);
                let high = self.convert(Scalar::U32, high);
                let next = self.binary(Binary::Add, at, apart);
                self.keep_word(high, next);
                self.convert(Scalar::U32, bits)
            }
        };
        self.keep_word(word, at);
    }
    fn word_at(&mut self, at: Value) -> Value {
        self.push(Op::Load(Place::Buffer(1), at, 1), Type::U32)
    }
    fn number_at(&mut self, s: Scalar, at: Value, apart: Value) -> Value {
        let word = self.word_at(at);
        match s {
            Scalar::Bool => {
                let zero = self.u32(0);
                self.push(Op::Compare(Compare::Ne, word, zero), Type::BOOL)
            }
            Scalar::I32 | Scalar::U32 | Scalar::F32 => self.bitcast(s, word),
            Scalar::I64 | Scalar::U64 | Scalar::F64 => {
                let next = self.binary(Binary::Add, at, apart);
                let high = self.word_at(next);
                let [low, high] = [word, high].map(|w| self.convert(Scalar::U64, w));
                let by = self.push(Op::Const(Constant::int(Scalar::U64, 32)), Scalar::U64.into());
                let high = self.binary(Binary::Shl, high, by);
                let bits = self.binary(Binary::Or, high, low);
                self.bitcast(s, bits)
            }
        }
    }
    /// Where the invocation keeps a word: words of neighbours are neighbours.
    fn place_of(&mut self, word: u32) -> Value {
        let word = self.u32(word);
        let line = self.binary(Binary::Mul, word, self.total);
        self.binary(Binary::Add, line, self.id)
    }
    /// The first word of each value from `first` on, and the word behind all.
    pub(super) fn words(&self, first: u32, types: &[Type]) -> Result<(Vec<u32>, u32), String> {
        let mut at = first;
        let mut all = Vec::new();
        for t in types {
            let Type::Vector(s, width) = *t else { return Err("it carries fragments".into()) };
            all.push(at);
            at += words_of(s) as u32 * u32::from(width);
        }
        Ok((all, at))
    }
    pub(super) fn keep(&mut self, v: Value, first: u32) {
        let Type::Vector(s, width) = self.values[v.0 as usize] else { return };
        for e in 0..width {
            let one = if width == 1 { v } else { self.push(Op::Extract(v, e), s.into()) };
            let at = self.place_of(first + u32::from(e) * words_of(s) as u32);
            self.keep_number(one, s, at, self.total);
        }
    }
    pub(super) fn kept(&mut self, ty: Type, first: u32) -> Result<Value, String> {
        let Type::Vector(s, width) = ty else { return Err("it carries fragments".into()) };
        let all: Vec<Value> = (0..width)
            .map(|e| {
                let at = self.place_of(first + u32::from(e) * words_of(s) as u32);
                self.number_at(s, at, self.total)
            })
            .collect();
        Ok(if width == 1 { all[0] } else { self.push(Op::Compose(all), ty) })
    }

    // The way to the loop
}

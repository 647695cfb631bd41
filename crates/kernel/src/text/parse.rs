//! Text form: the parser.
//!
//! Types are read, not checked: that is the verifier's work.

mod op;

use super::words::Word;
use crate::ir::{
    Access, Buffer, Constant, Elem, Fragment, Inst, Kernel, Param, Place, Region, Role, Scalar, Shared,
    TensorView, TmaTile, Type, Value,
};
use std::fmt;

/// What could not be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// What was seen, and what would have fitted.
    pub what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel text, line {}: {}", self.line, self.what)
    }
}
impl std::error::Error for ParseError {}

type Read<T> = Result<T, ParseError>;

/// Regions in regions, at most: deeper text is refused, not a stack overflow.
const MAX_DEPTH: usize = 64;
/// Values that a text may number: a mistyped name must not ask for gigabytes.
const MAX_VALUES: usize = 1 << 22;

/// Reads a kernel.
///
/// # Errors
/// A [`ParseError`] that names the line.
pub fn parse(text: &str) -> Read<Kernel> {
    let mut p = Parser { words: split(text), at: 0, depth: 0, values: Vec::new(), names: Names::default() };
    let k = p.kernel()?;
    if p.at < p.words.len() {
        return p.wrong("nothing after the kernel");
    }
    Ok(k)
}

/// Words and signs, each with its line. `#` begins a comment.
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("");
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let len = if "{}[],=:".contains(first) {
                1
            } else {
                rest.find(|c: char| c.is_whitespace() || "{}[],=:".contains(c)).unwrap_or(rest.len())
            };
            all.push((i + 1, &rest[..len]));
            rest = rest[len..].trim_start();
        }
    }
    all
}

#[derive(Default)]
struct Names {
    params: Vec<Param>,
    buffers: Vec<Buffer>,
    views: Vec<TensorView>,
    shared: Vec<Shared>,
    mbarriers: u32,
}

struct Parser<'a> {
    words: Vec<(usize, &'a str)>,
    at: usize,
    depth: usize,
    values: Vec<Option<Type>>,
    names: Names,
}

impl<'a> Parser<'a> {
    fn line(&self) -> usize {
        self.words.get(self.at).or(self.words.last()).map_or(1, |w| w.0)
    }
    fn wrong<T>(&self, wanted: &str) -> Read<T> {
        let seen = self.words.get(self.at).map_or("the end", |w| w.1);
        Err(ParseError { line: self.line(), what: format!("here is `{seen}`, and should be {wanted}") })
    }
    fn peek(&self) -> &'a str {
        self.words.get(self.at).map_or("", |w| w.1)
    }
    fn word(&mut self) -> &'a str {
        let w = self.peek();
        self.at += 1;
        w
    }
    fn expect(&mut self, word: &str) -> Read<()> {
        if self.peek() == word {
            self.at += 1;
            Ok(())
        } else {
            self.wrong(&format!("`{word}`"))
        }
    }
    fn accept(&mut self, word: &str) -> bool {
        let here = self.peek() == word;
        self.at += usize::from(here);
        here
    }
    /// The next word through `f`, which knows it or not.
    fn known<T>(&mut self, wanted: &str, f: impl Fn(&str) -> Option<T>) -> Read<T> {
        match f(self.peek()) {
            Some(v) => {
                self.at += 1;
                Ok(v)
            }
            None => self.wrong(wanted),
        }
    }
    fn u32(&mut self) -> Read<u32> {
        self.known("a whole number", |w| w.parse().ok())
    }
    fn u8(&mut self) -> Read<u8> {
        self.known("a small whole number", |w| w.parse().ok())
    }
    fn name(&mut self) -> Read<String> {
        let is_name = |w: &str| {
            w.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
                && w.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        self.known("a name", |w| is_name(w).then(|| w.to_string()))
    }

    fn kernel(&mut self) -> Read<Kernel> {
        self.expect("kernel")?;
        let name = self.name()?;
        self.expect("group")?;
        let group = [self.u32()?, self.u32()?, self.u32()?];
        self.expect("{")?;
        let subgroup = if self.accept("subgroup") { Some(self.u32()?) } else { None };
        let min_blocks_per_sm = if self.accept("min_blocks_per_sm") { Some(self.u32()?) } else { None };
        loop {
            if self.accept("buffer") {
                let b = Buffer {
                    name: self.name()?,
                    elem: self.known("an element type", Elem::of)?,
                    access: self.known("an access", Access::of)?,
                };
                self.names.buffers.push(b);
            } else if self.accept("param") {
                let p = Param { name: self.name()?, scalar: self.known("a scalar type", Scalar::of)? };
                self.names.params.push(p);
            } else if self.accept("view") {
                let v = self.view()?;
                self.names.views.push(v);
            } else if self.accept("mbarriers") {
                self.names.mbarriers = self.u32()?;
            } else if self.accept("shared") {
                let s = Shared {
                    name: self.name()?,
                    elem: self.known("an element type", Elem::of)?,
                    len: self.u32()?,
                };
                self.names.shared.push(s);
            } else {
                break;
            }
        }
        let body = self.region(Vec::new())?;
        let line = self.line();
        let values = self.values.iter().copied().collect::<Option<Vec<Type>>>();
        let values = values.ok_or_else(|| ParseError {
            line,
            what: "the values are not numbered without gaps".to_string(),
        })?;
        let Names { params, buffers, views, shared, mbarriers } = std::mem::take(&mut self.names);
        Ok(Kernel {
            name,
            group,
            subgroup,
            min_blocks_per_sm,
            buffers,
            params,
            views,
            shared,
            mbarriers,
            values,
            body,
        })
    }

    /// `vx x 64 offset n m b row plane`, behind its word.
    fn view(&mut self) -> Read<TensorView> {
        let name = self.name()?;
        let buffer = match self.place()? {
            Place::Buffer(i) => i,
            Place::Shared(_) => return self.wrong("a view of a buffer"),
        };
        let lines = self.u32()?;
        let mut numbers = [0; 6];
        for to in &mut numbers {
            *to = self.param()?;
        }
        let [offset, a, b, c, d, e] = numbers;
        Ok(TensorView { name, buffer, lines, offset, sizes: [a, b, c], strides: [d, e] })
    }
    /// The name of a parameter.
    fn param(&mut self) -> Read<u32> {
        let name = self.peek();
        match self.names.params.iter().position(|p| p.name == name) {
            Some(i) => {
                self.at += 1;
                Ok(i as u32)
            }
            None => self.wrong("a parameter"),
        }
    }

    /// Instructions up to and with the closing brace.
    fn region(&mut self, args: Vec<Value>) -> Read<Region> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.wrong(&format!("at most {MAX_DEPTH} regions inside of each other"));
        }
        let mut r = Region { args, ..Region::default() };
        loop {
            if self.accept("}") {
                self.depth -= 1;
                return Ok(r);
            }
            if self.accept("yield") {
                r.yields = self.list()?;
                self.expect("}")?;
                self.depth -= 1;
                return Ok(r);
            }
            if self.at >= self.words.len() {
                return self.wrong("`}`");
            }
            r.insts.push(self.inst()?);
        }
    }

    fn value(&mut self) -> Read<Value> {
        let number = |w: &str| w.strip_prefix('%').and_then(|n| n.parse().ok()).map(Value);
        self.known("a value", number)
    }
    fn list(&mut self) -> Read<Vec<Value>> {
        let mut all = vec![self.value()?];
        while self.accept(",") {
            all.push(self.value()?);
        }
        Ok(all)
    }
    /// Values, exactly as many.
    fn values<const N: usize>(&mut self) -> Read<[Value; N]> {
        let all = self.list()?;
        let found = all.len();
        match all.try_into() {
            Ok(v) => Ok(v),
            Err(_) => {
                Err(ParseError { line: self.line(), what: format!("{found} values, and should be {N}") })
            }
        }
    }
    fn ty(&mut self) -> Read<Type> {
        self.known("a type", |w| {
            if let Some(rest) = w.strip_prefix("fragment.") {
                let parts: Vec<&str> = rest.split('.').collect();
                let [role, elem, sizes] = parts[..] else { return None };
                let role = match role {
                    "a" => Role::A,
                    "b" => Role::B,
                    "c" => Role::C,
                    _ => return None,
                };
                let sizes: Vec<u8> = sizes.split('x').map(|s| s.parse().ok()).collect::<Option<_>>()?;
                let [m, n, k] = sizes[..] else { return None };
                return Some(Type::Fragment(Fragment { role, elem: Elem::of(elem)?, m, n, k }));
            }
            match w.split_once('x') {
                Some((s, width)) => {
                    Some(Type::Vector(Scalar::of(s)?, width.parse().ok().filter(|w| *w != 1)?))
                }
                None => Some(Type::Vector(Scalar::of(w)?, 1)),
            }
        })
    }
    /// `%5: f32`
    fn define(&mut self) -> Read<(Value, Type)> {
        let v = self.value()?;
        self.expect(":")?;
        let t = self.ty()?;
        let i = v.0 as usize;
        if i >= MAX_VALUES {
            return self.wrong(&format!("less than {MAX_VALUES} values"));
        }
        if self.values.len() <= i {
            self.values.resize(i + 1, None);
        }
        if self.values[i].replace(t).is_some() {
            return Err(ParseError { line: self.line(), what: format!("%{i} is defined a second time") });
        }
        Ok((v, t))
    }

    fn place(&mut self) -> Read<Place> {
        let name = self.peek();
        let buffer = self.names.buffers.iter().position(|b| b.name == name).map(|i| Place::Buffer(i as u32));
        let shared =
            || self.names.shared.iter().position(|b| b.name == name).map(|i| Place::Shared(i as u32));
        match buffer.or_else(shared) {
            Some(p) => {
                self.at += 1;
                Ok(p)
            }
            None => self.wrong("a buffer or shared memory"),
        }
    }
    /// `x[%4]`
    fn indexed(&mut self) -> Read<(Place, Value)> {
        let p = self.place()?;
        self.expect("[")?;
        let v = self.value()?;
        self.expect("]")?;
        Ok((p, v))
    }

    /// `s[%1] = vx[%2, %3, %4]`
    fn tma_tile(&mut self) -> Read<TmaTile> {
        let (to, at) = self.indexed()?;
        self.expect("=")?;
        let name = self.peek();
        let Some(view) = self.names.views.iter().position(|v| v.name == name) else {
            return self.wrong("a view");
        };
        self.at += 1;
        self.expect("[")?;
        let from = self.values()?;
        self.expect("]")?;
        Ok(TmaTile { to, at, view: view as u32, from })
    }

    fn inst(&mut self) -> Read<Inst> {
        let mut defined = Vec::new();
        if self.peek().starts_with('%') {
            defined.push(self.define()?);
            while self.accept(",") {
                defined.push(self.define()?);
            }
            self.expect("=")?;
        }
        let ty = defined.first().map(|d| d.1);
        let op = self.op(ty)?;
        Ok(Inst { op, results: defined.into_iter().map(|d| d.0).collect() })
    }
}

/// A number as it was printed.
fn number(scalar: Scalar, word: &str) -> Option<Constant> {
    let bits = match scalar {
        Scalar::Bool => u64::from(word.parse::<bool>().ok()?),
        Scalar::I32 => u64::from(word.parse::<i32>().ok()? as u32),
        Scalar::U32 => u64::from(word.parse::<u32>().ok()?),
        Scalar::I64 => word.parse::<i64>().ok()? as u64,
        Scalar::U64 => word.parse::<u64>().ok()?,
        Scalar::F32 | Scalar::F64 => {
            if word == "nan" {
                return Some(Constant::float(scalar, f64::NAN));
            }
            let bits = word.strip_prefix("nan@0x").map(|h| u64::from_str_radix(h, 16));
            match (bits, scalar) {
                (Some(bits), _) => bits.ok()?,
                (None, Scalar::F32) => u64::from(word.parse::<f32>().ok()?.to_bits()),
                (None, _) => word.parse::<f64>().ok()?.to_bits(),
            }
        }
    };
    Some(Constant { scalar, bits })
}

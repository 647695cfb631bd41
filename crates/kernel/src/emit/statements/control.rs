//! Languages of statements: branches and loops.

use super::{Declared, Language, Printer};
use crate::ir::{Region, Value};

impl<L: Language> Printer<'_, L> {
    /// A block of statements.
    fn block(&mut self, r: &Region) {
        self.depth += 1;
        self.region(r);
        self.depth -= 1;
    }
    fn assign(&mut self, to: &str, from: &str) {
        self.depth += 1;
        self.line(&format!("{to} = {from};"));
        self.depth -= 1;
    }

    pub(super) fn branch(&mut self, c: Value, regions: [&Region; 2], results: &[Value]) {
        let to: Vec<String> = results.iter().flat_map(|&v| self.declare(v)).collect();
        let c = self.name(c).to_string();
        self.line(&format!("if ({c}) {{"));
        for (i, r) in regions.into_iter().enumerate() {
            if i == 1 {
                if r.insts.is_empty() && results.is_empty() {
                    break;
                }
                self.line("} else {");
            }
            self.block(r);
            let from: Vec<String> = r.yields.iter().flat_map(|&v| self.parts(v)).collect();
            for (to, from) in to.iter().zip(&from) {
                self.assign(to, from);
            }
        }
        self.line("}");
    }

    /// What is carried are variables, which are the results afterwards. That loops end is known of
    /// every kernel, as C++ assumes of its own.
    pub(super) fn repeat(
        &mut self,
        [start, end, step]: [Value; 3],
        init: &[Value],
        body: &Region,
        results: &[Value],
    ) {
        let index = format!("v{}", body.args[0].0);
        self.call(body.args[0], index.clone());
        let mut carried = Vec::new();
        for (i, &v) in results.iter().enumerate() {
            let (name, ty) = (format!("v{}", v.0), self.ty(v));
            self.call(v, name.clone());
            self.call(body.args[i + 1], name);
            for (part, first) in self.parts(v).into_iter().zip(self.parts(init[i])) {
                self.line(&format!("{} = {first};", L::declaration(Declared::Variable, &ty, &part)));
                carried.push((part, ty.clone()));
            }
        }
        let counter = L::declaration(Declared::Counter, &self.ty(body.args[0]), &index);
        let [start, end, step] = [start, end, step].map(|v| self.name(v).to_string());
        self.line(&format!("for ({counter} = {start}; {index} < {end}; {index} += {step}) {{"));
        self.block(body);
        let nexts: Vec<String> = body.yields.iter().flat_map(|&v| self.parts(v)).collect();
        let moves: Vec<(&(String, String), &String)> =
            carried.iter().zip(&nexts).filter(|((to, _), from)| to != *from).collect();
        // All at once: what is assigned to may be what another one gets.
        let crossed = moves.iter().any(|(_, from)| carried.iter().any(|(name, _)| name == *from));
        if crossed {
            for ((to, ty), from) in &moves {
                self.assign(&L::declaration(Declared::Constant, ty, &format!("next_{to}")), from);
            }
        }
        for ((to, _), from) in &moves {
            let from = if crossed { format!("next_{to}") } else { from.to_string() };
            self.assign(to, &from);
        }
        self.line("}");
    }
}

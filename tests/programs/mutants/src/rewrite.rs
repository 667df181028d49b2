//! The text of a file with its mutants beside what they change.
//!
//! Every mutant is some text put in between, and nothing of the file is taken away. So mutants of
//! places inside each other need no more than the right order of what is put in at one place.
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use proc_macro2::LineColumn;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::{Fault, Id, Mutant};

/// A file as it is built.
pub struct Rewritten {
    pub text: String,
    /// Where in `text` each mutant stands. The rest is the file's own.
    pub pieces: Vec<(Range<usize>, Id)>,
    /// Those that cannot be put beside what they change.
    pub left: Vec<Id>,
}

/// What is put in at a place: closing parts before opening ones, the inner close first, and the
/// outer open first.
struct Insert {
    order: (usize, Rank, std::cmp::Reverse<usize>, i64),
    id: Id,
    text: String,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Close,
    Within,
    Open,
}

/// The condition under which a mutant is on.
fn on(id: Id) -> String {
    format!("crate::mutant_switch::on({id})")
}

/// `text` with `mutants`, which are all of this file.
pub fn rewrite(text: &str, mutants: &BTreeMap<Id, &Mutant>) -> Result<Rewritten, Fault> {
    let mut places = Places::new(text);
    places.visit_file(&syn::parse_file(text)?);
    let mut inserts = Vec::new();
    let mut left = Vec::new();
    for (&id, mutant) in mutants {
        match places.inserts(text, id, mutant) {
            Some(more) => inserts.extend(more),
            None => left.push(id),
        }
    }
    inserts.sort_by(|a, b| a.order.cmp(&b.order));
    let (mut out, mut pieces, mut at) = (String::new(), Vec::new(), 0);
    for insert in inserts {
        out.push_str(&text[at..insert.order.0]);
        at = insert.order.0;
        let start = out.len();
        out.push_str(&insert.text);
        pieces.push((start..out.len(), insert.id));
    }
    out.push_str(&text[at..]);
    Ok(Rewritten { text: out, pieces, left })
}

/// What of a file can be changed, by positions in its text.
struct Places {
    starts: Vec<usize>,
    lines: Vec<String>,
    bodies: Vec<Range<usize>>,
    /// By the operator: the largest expression of operators that it stands in, since operators
    /// that follow bind by their rank.
    operators: HashMap<usize, Range<usize>>,
    /// By the start: the end of the pattern, and the guard.
    arms: HashMap<usize, (usize, Option<Range<usize>>)>,
    /// The guards without `let`, which cannot stand in parentheses.
    guards: HashMap<usize, Range<usize>>,
    structs: Vec<Range<usize>>,
}

impl Places {
    fn new(text: &str) -> Self {
        let lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        let starts = lines
            .iter()
            .scan(0, |at, line| Some(std::mem::replace(at, *at + line.len())))
            .collect();
        Self {
            starts,
            lines,
            bodies: Vec::new(),
            operators: HashMap::new(),
            arms: HashMap::new(),
            guards: HashMap::new(),
            structs: Vec::new(),
        }
    }

    /// The position of a column, from 0, of a line, from 1.
    fn at(&self, line: usize, column: usize) -> usize {
        let text = &self.lines[line - 1];
        let within = text.char_indices().nth(column).map_or(text.len(), |(at, _)| at);
        self.starts[line - 1] + within
    }

    fn range(&self, spanned: &impl Spanned) -> Range<usize> {
        let place = |place: LineColumn| self.at(place.line, place.column);
        let span = spanned.span();
        place(span.start())..place(span.end())
    }

    /// What is put in for a mutant; none when it cannot be done.
    fn inserts(&self, text: &str, id: Id, mutant: &Mutant) -> Option<Vec<Insert>> {
        let place = |place: &crate::Place| self.at(place.line, place.column - 1);
        let span = place(&mutant.span.start)..place(&mutant.span.end);
        let innermost = |ranges: &[Range<usize>]| {
            let around = |range: &&Range<usize>| range.start <= span.start && span.end <= range.end;
            ranges.iter().filter(around).max_by_key(|range| range.start).cloned()
        };
        let replacement = mutant.replacement.trim();
        let instead = |whole: &Range<usize>, rest: &str| {
            let before = &text[whole.start..span.start];
            let first = format!("(if {} {{ {before}{replacement}{rest} }} else {{ ", on(id));
            Some(around(whole.clone(), id, i64::from(id), first, " })".to_owned()))
        };
        match mutant.genre.as_str() {
            "FnValue" => {
                // The iterators would be of two types.
                if mutant.function.as_ref()?.return_type.starts_with("-> impl") {
                    return None;
                }
                let at = innermost(&self.bodies)?.start + 1;
                let change = format!(" if {} {{ return {replacement}; }} ", on(id));
                Some(vec![insert(at, Rank::Within, 0, i64::from(id), id, change)])
            }
            "BinaryOperator" | "UnaryOperator" => {
                let whole = self.operators.get(&span.start)?;
                instead(whole, &text[span.end..whole.end])
            }
            "MatchArmGuard" => instead(self.guards.get(&span.start)?, ""),
            "MatchArm" => match self.arms.get(&span.start)? {
                (_, Some(guard)) => {
                    // With parentheses where they may stand: the guard may have `||`.
                    let (open, close) = match self.guards.contains_key(&guard.start) {
                        true => ("(", ")"),
                        false => ("", ""),
                    };
                    let first = format!("!{} && {open}", on(id));
                    // Around what changes the guard itself.
                    Some(around(guard.clone(), id, i64::MIN + 1, first, close.to_owned()))
                }
                (end, None) => {
                    let guard = format!(" if !{}", on(id));
                    Some(vec![insert(*end, Rank::Within, 0, 0, id, guard)])
                }
            },
            "StructField" => {
                let whole = innermost(&self.structs)?;
                let rest = &text[span.end..whole.end];
                // The comma of the field goes with it.
                instead(&whole, rest.trim_start().strip_prefix(',').unwrap_or(rest))
            }
            _ => None,
        }
    }

    /// Operators below `expr`, in the expression of operators `root`.
    fn operator(&mut self, expr: &syn::Expr, root: Option<&Range<usize>>) {
        let syn::Expr::Binary(binary) = expr else {
            return self.visit_expr(expr);
        };
        // A chain of `let` cannot stand in parentheses, but what is between its `&&` can.
        let own = self.range(binary);
        let root = (!has_let(expr)).then(|| root.unwrap_or(&own).clone());
        if let Some(root) = &root {
            self.operators.insert(self.range(&binary.op).start, root.clone());
        }
        self.operator(&binary.left, root.as_ref());
        self.operator(&binary.right, root.as_ref());
    }
}

fn insert(at: usize, rank: Rank, other: usize, order: i64, id: Id, text: String) -> Insert {
    Insert { order: (at, rank, std::cmp::Reverse(other), order), id, text }
}

/// `first` and `last` around a range; of two around the same, that of the lower `order` is outer.
fn around(range: Range<usize>, id: Id, order: i64, first: String, last: String) -> Vec<Insert> {
    vec![
        insert(range.start, Rank::Open, range.end, order, id, first),
        insert(range.end, Rank::Close, range.start, -order, id, last),
    ]
}

fn has_let(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Places {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.bodies.push(self.range(&item.block));
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.bodies.push(self.range(&item.block));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.bodies.extend(item.default.as_ref().map(|block| self.range(block)));
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        self.operator(&syn::Expr::Binary(binary.clone()), None);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        self.operators.insert(self.range(&unary.op).start, self.range(unary));
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let guard = arm.guard.as_ref().map(|(_, guard)| (self.range(guard), has_let(guard)));
        let pattern = self.range(&arm.pat).end;
        let start = self.range(arm).start;
        self.arms.insert(start, (pattern, guard.as_ref().map(|(range, _)| range.clone())));
        if let Some((range, false)) = guard {
            self.guards.insert(range.start, range);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expr: &'ast syn::ExprStruct) {
        self.structs.push(self.range(expr));
        visit::visit_expr_struct(self, expr);
    }
}

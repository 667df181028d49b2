//! Evaluates operands: fields, variables, functions and methods with their arguments.

use super::ast::{Arg, Cmd, Number};
use super::exec::{At, Exec, MissingKey};
use super::fail::Fail;
use super::function::{Function, Param};
use super::methods;
use super::value::{Dict, Elem, IntKind, List, Value};
use crate::error::TemplateError;

type Evaluated = Result<Value, TemplateError>;

/// What an operand is evaluated with.
struct Given<'a, 't> {
    dot: &'a Value,
    /// The place of a failed call.
    node: At<'t>,
    /// The words of a command, of which the first is the operand; empty without arguments.
    args: &'t [Arg],
    /// The value passed by the pipeline.
    last: Option<Value>,
}

impl Given<'_, '_> {
    fn has_args(&self) -> bool {
        self.args.len() > 1 || self.last.is_some()
    }
}

impl<'t> Exec<'t, '_> {
    /// Evaluates a command; `last` is the value passed by the pipeline.
    pub fn command(&mut self, dot: &Value, cmd: &'t Cmd, last: Option<Value>) -> Evaluated {
        let first = &cmd.args[0];
        let node = match first {
            Arg::Func(..) => At::Cmd(cmd),
            _ => At::Arg(first),
        };
        self.evaluate(first, Given { dot, node, args: &cmd.args, last })
    }

    /// Evaluates an operand of any type.
    fn operand(&mut self, dot: &Value, node: &'t Arg) -> Evaluated {
        self.evaluate(node, Given { dot, node: At::Arg(node), args: &[], last: None })
    }

    fn evaluate(&mut self, node: &'t Arg, given: Given<'_, 't>) -> Evaluated {
        let dot = given.dot;
        if let Arg::Pipe(pipe) = node {
            self.not_a_function(node, &given)?;
            return self.pipeline(dot, pipe);
        }
        self.at = At::Arg(node);
        let (mut receiver, names) = match node {
            Arg::Func(_, function) => return self.call(function, None, given),
            Arg::Field(_, names) => (dot.clone(), names.as_slice()),
            Arg::Chain(_, inner, names) => {
                let receiver = self.operand(dot, inner)?;
                (receiver, names.as_slice())
            }
            Arg::Variable(_, names) => (self.var(&names[0])?, &names[1..]),
            _ => {
                self.not_a_function(node, &given)?;
                return match node {
                    Arg::Bool(_, yes) => Ok(Value::Bool(*yes)),
                    Arg::Dot(_) => Ok(dot.clone()),
                    Arg::Number(_, number) => self.ideal_constant(number),
                    Arg::Str(_, _, text) => self.literal(text),
                    _ => self.fail("nil is not a command"),
                };
            }
        };
        // Only the last one may be a method with arguments.
        let Some((end, front)) = names.split_last() else {
            self.not_a_function(node, &given)?;
            return Ok(receiver);
        };
        for name in front {
            receiver = self.field(receiver, name, Given { args: &[], last: None, ..given })?;
        }
        self.field(receiver, end, given)
    }

    fn not_a_function(&self, node: &Arg, given: &Given<'_, '_>) -> Result<(), TemplateError> {
        match given.has_args() {
            true => self.fail(format_args!("can't give argument to non-function {node}")),
            false => Ok(()),
        }
    }

    fn field(&mut self, receiver: Value, name: &str, given: Given<'_, 't>) -> Evaluated {
        match &receiver {
            Value::Absent => {
                if self.source.missing_key == MissingKey::Error {
                    return self.fail_missing(format_args!("nil data; no entry for key {name:?}"));
                }
                return Ok(Value::Absent);
            }
            Value::Nil => {
                return self
                    .fail_missing(format_args!("nil pointer evaluating interface {{}}.{name}"));
            }
            _ => {}
        }
        if let Some(method) = methods::find(&receiver, name) {
            return self.call(method, Some(receiver), given);
        }
        let has_args = given.has_args();
        match &receiver {
            Value::Dict(dict) => {
                if has_args {
                    return self.fail(format_args!("{name} is not a method but has arguments"));
                }
                if let Some(value) = dict.get(name) {
                    return Ok(value);
                }
                match self.source.missing_key {
                    MissingKey::Default => Ok(Value::Absent),
                    MissingKey::Zero if dict.text => Ok(Value::str("")),
                    MissingKey::Zero => Ok(Value::Nil),
                    MissingKey::Error => self.fail_missing_key(name, dict),
                }
            }
            Value::Certificate(certificate) => match certificate.field(name) {
                Some(_) if has_args => self
                    .fail(format_args!("{name} has arguments but cannot be invoked as function")),
                Some(value) => Ok(value),
                None => self.fail(format_args!(
                    "can't evaluate field {name} in type {}",
                    receiver.type_name()
                )),
            },
            _ => self.fail_missing(format_args!(
                "can't evaluate field {name} in type {}",
                receiver.type_name()
            )),
        }
    }

    /// Calls a function, or a method of a receiver.
    fn call(
        &mut self,
        function: &'static Function,
        receiver: Option<Value>,
        given: Given<'_, 't>,
    ) -> Evaluated {
        let Given { dot, node, args, last } = given;
        let name = function.name;
        let args = args.get(1..).unwrap_or_default();
        let given = args.len() + usize::from(last.is_some());
        let (fixed, variadic) = (function.fixed(), function.is_variadic());
        if variadic && given < fixed {
            let n = args.len();
            return self.fail(format_args!(
                "wrong number of args for {name}: want at least {fixed} got {n}"
            ));
        }
        if !variadic && given != fixed {
            return self
                .fail(format_args!("wrong number of args for {name}: want {fixed} got {given}"));
        }
        if name == "and" || name == "or" {
            return self.short_circuit(dot, name == "or", args, last);
        }
        let mut values: Vec<Value> = receiver.into_iter().collect();
        for (i, arg) in args.iter().enumerate() {
            values.push(self.argument(dot, function.param(i), arg)?);
        }
        if let Some(last) = last {
            values.push(self.validate(last, function.param(given - 1))?);
        }
        let read: usize = values.iter().map(Value::text_len).sum();
        let charged = self.run.charge(1).and_then(|()| self.run.read(read));
        let outcome = charged.and_then(|()| (function.body)(&mut self.run, &values));
        let failed = match outcome {
            Ok(Value::Str(text)) => match self.run.charge_bytes(text.bytes().len()) {
                Ok(()) => return Ok(Value::Str(text)),
                Err(fail) => fail,
            },
            Ok(value) => return Ok(value),
            Err(fail) => fail,
        };
        self.at = node;
        match failed {
            Fail::Message(message) => self.fail(format_args!("error calling {name}: {message}")),
            Fail::Limit(message) => self.fail_limit(&format!("error calling {name}: "), message),
        }
    }

    /// `and` and `or` evaluate only the arguments they need.
    fn short_circuit(
        &mut self,
        dot: &Value,
        or: bool,
        args: &'t [Arg],
        last: Option<Value>,
    ) -> Evaluated {
        let mut value = Value::Absent;
        for arg in args {
            value = self.argument(dot, Param::Raw, arg)?;
            if value.truth() == or {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    /// Evaluates an argument for a parameter.
    fn argument(&mut self, dot: &Value, param: Param, node: &'t Arg) -> Evaluated {
        self.at = At::Arg(node);
        self.step()?;
        match node {
            Arg::Nil(_) => match param {
                Param::Any => Ok(Value::Nil),
                Param::Raw => Ok(Value::Absent),
                Param::List | Param::Dict | Param::Version => self.validate(Value::Absent, param),
                _ => self.fail(format_args!("cannot assign nil to {}", param.type_name())),
            },
            Arg::Bool(_, yes) => match param {
                Param::Bool | Param::Any | Param::Raw => Ok(Value::Bool(*yes)),
                _ => self.not_a(param, node),
            },
            Arg::Str(_, _, text) => match param {
                Param::Str | Param::Any | Param::Raw => self.literal(text),
                _ => self.not_a(param, node),
            },
            Arg::Number(_, number) => match (param, number) {
                (Param::Int, Number { int: Some(n), .. }) => Ok(Value::int(*n)),
                (Param::Duration, Number { int: Some(n), .. }) => {
                    Ok(Value::Int(IntKind::Duration, *n))
                }
                (Param::Uint32, Number { uint: Some(n), .. }) => Ok(Value::int((*n as u32).into())),
                (Param::Float, Number { float: Some(n), .. }) => Ok(Value::Float(*n)),
                (Param::Any | Param::Raw, _) => self.ideal_constant(number),
                _ => self.not_a(param, node),
            },
            _ => {
                let value = self.operand(dot, node)?;
                self.validate(value, param)
            }
        }
    }

    fn not_a(&self, param: Param, node: &Arg) -> Evaluated {
        match param {
            Param::List | Param::Dict | Param::Time | Param::Version | Param::Certificate => {
                self.fail(format_args!("can't handle {node} for arg of type {}", param.type_name()))
            }
            _ => self.fail(format_args!("expected {}; found {node}", param.type_name())),
        }
    }

    /// Checks that a value can be passed for a parameter.
    fn validate(&self, value: Value, param: Param) -> Evaluated {
        let fits = match (&value, param) {
            (_, Param::Raw) => true,
            (_, Param::Any) => return Ok(value.or_nil()),
            (Value::Absent, Param::List) => {
                return Ok(Value::List(List::nil(Elem::Any)));
            }
            (Value::Absent, Param::Dict) => return Ok(Value::Dict(Dict::nil())),
            (Value::Absent, _) => {
                return self.fail(format_args!("invalid value; expected {}", param.type_name()));
            }
            (Value::Bool(_), Param::Bool)
            | (Value::Int(IntKind::Int, _), Param::Int)
            | (Value::Int(IntKind::Duration, _), Param::Duration)
            | (Value::Float(_), Param::Float)
            | (Value::Str(_), Param::Str)
            | (Value::Time(_), Param::Time)
            | (Value::Version(_), Param::Version)
            | (Value::Certificate(_), Param::Certificate) => true,
            (Value::List(list), Param::List) => list.elem == Elem::Any,
            (Value::Dict(dict), Param::Dict) => !dict.text,
            _ => false,
        };
        if fits {
            return Ok(value);
        }
        let got = if matches!(value, Value::Nil) { "interface {}" } else { value.type_name() };
        self.fail(format_args!("wrong type for value; expected {}; got {got}", param.type_name()))
    }

    /// A copy of a text literal of the template.
    fn literal(&mut self, text: &[u8]) -> Evaluated {
        let outcome = self.run.read(text.len());
        self.check(outcome)?;
        Ok(Value::str(text))
    }

    /// The value of an untyped number.
    fn ideal_constant(&self, number: &Number) -> Evaluated {
        let text = &number.text;
        if let Some((re, im)) = number.complex {
            return Ok(Value::Complex(re, im));
        }
        let rune = text.starts_with('\'');
        let hex =
            text.len() > 2 && text.starts_with('0') && matches!(text.as_bytes()[1], b'x' | b'X');
        let hex_int = hex && !text.contains(['p', 'P']);
        match (number.float, number.int) {
            (Some(f), _) if !rune && !hex_int && text.contains(['.', 'e', 'E', 'p', 'P']) => {
                Ok(Value::Float(f))
            }
            (_, Some(n)) => Ok(Value::int(n)),
            _ => self.fail(format_args!("{text} overflows int")),
        }
    }
}

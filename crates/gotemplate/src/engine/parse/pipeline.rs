//! Parses pipelines: declarations, commands and their operands.

use super::super::ast::{Arg, Cmd, Pipe, Pos};
use super::super::strconv;
use super::super::token::Kind;
use super::{Parsed, Parser};

impl Parser {
    pub(super) fn pipeline(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
        self.enter()?;
        let mut pipe = Pipe {
            pos: self.peek_non_space().pos,
            assign: false,
            decl: Vec::new(),
            cmds: Vec::new(),
        };
        self.declarations(&mut pipe, context)?;
        loop {
            let item = self.next_non_space();
            match item.kind {
                _ if item.kind == end => {
                    self.check_pipeline(&pipe, context)?;
                    self.leave();
                    return Ok(pipe);
                }
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawString
                | Kind::Str
                | Kind::Variable
                | Kind::LeftParen => {
                    self.backup();
                    pipe.cmds.push(self.command()?);
                }
                _ => return self.unexpected(&item, context),
            }
        }
    }

    fn declarations(&mut self, pipe: &mut Pipe, context: &str) -> Parsed<()> {
        loop {
            let variable = self.peek_non_space();
            if variable.kind != Kind::Variable {
                return Ok(());
            }
            self.next();
            // A space is a token, so distinguishing "$x foo" from "$x := foo" may need
            // three tokens.
            let after = self.peek();
            let next = self.peek_non_space();
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    pipe.assign = next.kind == Kind::Assign;
                    self.next_non_space();
                    pipe.decl.push(variable.text.clone());
                    self.declare(variable.text)?;
                    return Ok(());
                }
                Kind::Char if next.text == "," => {
                    self.next_non_space();
                    pipe.decl.push(variable.text.clone());
                    self.declare(variable.text)?;
                    if context != "range" || pipe.decl.len() >= 2 {
                        return self.error(format!("too many declarations in {context}"));
                    }
                    if !matches!(
                        self.peek_non_space().kind,
                        Kind::Variable | Kind::RightDelim | Kind::RightParen
                    ) {
                        return self.error("range can only initialize variables");
                    }
                }
                _ if after.kind == Kind::Space => {
                    self.backup3(variable, after);
                    return Ok(());
                }
                _ => {
                    self.backup2(variable);
                    return Ok(());
                }
            }
        }
    }

    fn check_pipeline(&self, pipe: &Pipe, context: &str) -> Parsed<()> {
        if pipe.cmds.is_empty() {
            return self.error(format!("missing value for {context}"));
        }
        for (i, cmd) in pipe.cmds.iter().enumerate().skip(1) {
            if let Some(
                Arg::Bool(..) | Arg::Dot(_) | Arg::Nil(_) | Arg::Number(..) | Arg::Str(..),
            ) = cmd.args.first()
            {
                return self.error(format!("non executable command in pipeline stage {}", i + 1));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Parsed<Cmd> {
        let mut cmd = Cmd { pos: self.peek_non_space().pos, args: Vec::new() };
        loop {
            self.peek_non_space();
            if let Some(operand) = self.operand()? {
                cmd.args.push(operand);
            }
            let item = self.next();
            match item.kind {
                Kind::Space => continue,
                Kind::RightDelim | Kind::RightParen => self.backup(),
                Kind::Pipe => {}
                _ => return self.unexpected(&item, "operand"),
            }
            break;
        }
        if cmd.args.is_empty() {
            return self.error("empty command");
        }
        Ok(cmd)
    }

    fn operand(&mut self) -> Parsed<Option<Arg>> {
        let Some(mut term) = self.term()? else { return Ok(None) };
        let first = self.peek();
        if first.kind != Kind::Field {
            return Ok(Some(term));
        }
        let mut fields = Vec::new();
        while self.peek().kind == Kind::Field {
            fields.push(self.next().text[1..].to_owned());
        }
        // An error in a chain of fields is reported at its second field.
        match &mut term {
            Arg::Field(pos, names) | Arg::Variable(pos, names) => {
                *pos = first.pos;
                names.append(&mut fields);
                Ok(Some(term))
            }
            Arg::Bool(..) | Arg::Str(..) | Arg::Number(..) | Arg::Nil(_) | Arg::Dot(_) => {
                self.error(format!("unexpected . after term {:?}", term.to_string()))
            }
            _ => Ok(Some(Arg::Chain(first.pos, Box::new(term), fields))),
        }
    }

    fn term(&mut self) -> Parsed<Option<Arg>> {
        let item = self.next_non_space();
        let pos: Pos = item.pos;
        let arg = match item.kind {
            Kind::Identifier => match (self.find)(&item.text) {
                Some(function) => Arg::Func(pos, function),
                None => return self.error(format!("function {:?} not defined", item.text)),
            },
            Kind::Dot => Arg::Dot(pos),
            Kind::Nil => Arg::Nil(pos),
            Kind::Variable => {
                if !self.vars.contains(&item.text) {
                    return self.error(format!("undefined variable {:?}", item.text));
                }
                Arg::Variable(pos, vec![item.text])
            }
            Kind::Field => Arg::Field(pos, vec![item.text[1..].to_owned()]),
            Kind::Bool => Arg::Bool(pos, item.text == "true"),
            Kind::CharConstant | Kind::Complex | Kind::Number => {
                let number = match item.kind {
                    Kind::CharConstant => strconv::parse_char(&item.text),
                    Kind::Complex => strconv::parse_complex(&item.text),
                    _ => strconv::parse_number(&item.text),
                };
                match number {
                    Ok(number) => Arg::Number(pos, number),
                    Err(message) => return self.error(message),
                }
            }
            Kind::LeftParen => {
                Arg::Pipe(self.pipeline("parenthesized pipeline", Kind::RightParen)?)
            }
            Kind::Str | Kind::RawString => {
                let text = self.unquote(&item.text)?;
                Arg::Str(pos, item.text, text)
            }
            _ => {
                self.backup();
                return Ok(None);
            }
        };
        Ok(Some(arg))
    }
}

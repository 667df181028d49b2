use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::run;

/// 2026-11-26 05:04:03 UTC, a Thursday.
const NOW: i64 = 1_795_669_443;

fn outcome(script: &str, open_libs: bool, object: Value) -> Value {
    let input = json!({
        "script": script,
        "openLibs": open_libs,
        "now": NOW,
        "milliseconds": 1000,
        "object": object,
    });
    run(input).expect("the input is valid")
}

/// `STATUS: message`, `none`, or `error: text`.
fn shown(outcome: &Value) -> String {
    match (&outcome["error"], &outcome["status"]) {
        (Value::String(error), _) => format!("error: {error}"),
        (_, Value::String(status)) => {
            format!("{status}: {}", outcome["message"].as_str().expect("a text"))
        }
        _ => "none".to_owned(),
    }
}

fn said(script: &str) -> String {
    let object = json!({
        "metadata": {"name": "one", "generation": 3, "annotations": {}},
        "spec": {"replicas": 2, "ratio": 0.5, "big": 12_345_678_901_i64, "none": null},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "message": "is up"},
            {"type": "Synced", "status": "False", "message": "is late"},
        ]},
    });
    shown(&outcome(script, false, object))
}

fn said_open(script: &str) -> String {
    shown(&outcome(script, true, json!({"metadata": {"name": "one"}})))
}

/// SE-481 … SE-483, and what scripts in public repositories use.
#[test]
fn the_contract_of_scripts() {
    let rows = [
        ("hs = {}\nhs.status = 'Healthy'\nhs.message = 'ok'\nreturn hs", "Healthy: ok"),
        ("local hs = {status = 'Suspended'}\nreturn hs", "Suspended: "),
        ("return {status='Missing'}", "Missing: "),
        ("return {status='Unknown', message='who knows'}", "Unknown: who knows"),
        // SE-482
        ("", "none"),
        ("return nil", "none"),
        ("return {}", "none"),
        ("return {'Healthy'}", "none"),
        ("return {status='Great'}", "Unknown: Lua returned an invalid health status"),
        ("return {message='x'}", "Unknown: Lua returned an invalid health status"),
        ("return {status=5}", "Unknown: Lua returned an invalid health status"),
        ("return 5", "error: expect table output from Lua script, not number"),
        ("return 'Healthy'", "error: expect table output from Lua script, not string"),
        ("return true", "error: expect table output from Lua script, not boolean"),
        ("return function() end", "error: expect table output from Lua script, not function"),
        ("return {status='Healthy', message=3}", "Healthy: 3"),
        ("return {status='Healthy', message=0.5}", "Healthy: 0.5"),
        ("return {status='Healthy', message=true}", "Healthy: true"),
        (
            "return {status='Healthy', message={}}",
            "error: expect a text as message from Lua script, not table",
        ),
        ("return {status='Healthy', extra={1}}", "Healthy: "),
        ("error('wrong')", "error: <string>:1: wrong"),
        ("error('wrong', 0)", "error: wrong"),
        ("return obj.nope.deeper", "error: <string>:1: attempt to index nil with 'deeper'"),
        // SE-481: lists from 1, null is nil, integers without a fraction.
        (
            "for i, c in ipairs(obj.status.conditions) do\n if c.type == 'Ready' and c.status == \
             'True' then return {status='Healthy', message=i .. ': ' .. c.message} end\nend",
            "Healthy: 1: is up",
        ),
        ("return {status='Healthy', message=#obj.status.conditions .. ''}", "Healthy: 2"),
        (
            "return {status='Healthy', message=table.getn(obj.status.conditions) .. ''}",
            "Healthy: 2",
        ),
        (
            "return {status='Healthy', message=obj.metadata.generation .. '/' .. obj.spec.big .. \
             '/' .. obj.spec.ratio .. '/' .. tostring(obj.spec.none)}",
            "Healthy: 3/12345678901/0.5/nil",
        ),
        (
            "if next(obj.metadata.annotations) == nil then return {status='Healthy'} end",
            "Healthy: ",
        ),
        ("if obj.metadata.labels == nil then return {status='Healthy'} end", "Healthy: "),
        (
            "local a, b = unpack({'x', 'y'}) return {status='Healthy', message=a .. b}",
            "Healthy: xy",
        ),
        (
            "local t = {} table.insert(t, 'a') table.insert(t, 'b') return {status='Healthy', \
             message=table.concat(t, ', ')}",
            "Healthy: a, b",
        ),
        ("return {status='Healthy', message=tostring(tonumber('07') + 1)}", "Healthy: 8"),
        (
            "local ok = pcall(function() error('x') end) return {status=ok and 'Healthy' or 'Degraded'}",
            "Degraded: ",
        ),
        // A reserved word in Luau only.
        (
            "local continue, type_ = 1, type({}) return {status='Healthy', message=type_}",
            "Healthy: table",
        ),
        (
            "local os = require('os') if os.time() > 0 then return {status='Healthy'} end",
            "Healthy: ",
        ),
        ("print('x') return {status='Healthy'}", "Healthy: "),
    ];
    for (script, want) in rows {
        assert_eq!(said(script), want, "{script}");
    }
    let syntax = said("local = 5");
    assert!(syntax.starts_with("error: <string>:1: "), "{syntax}");
}

/// SE-484
#[test]
fn the_libraries_of_scripts() {
    for name in ["string", "math", "io", "debug", "coroutine", "bit32", "utf8", "buffer"] {
        let script = format!("return {{status='Healthy', message=type({name})}}");
        assert_eq!(said(&script), "Healthy: nil", "{name}");
    }
    for name in ["string", "math", "coroutine"] {
        let script = format!("return {{status='Healthy', message=type({name})}}");
        assert_eq!(said_open(&script), "Healthy: table", "{name}");
    }
    let never = [
        "io",
        "debug",
        "dofile",
        "loadfile",
        "load",
        "loadstring",
        "getfenv",
        "setfenv",
        "newproxy",
        "gcinfo",
        "module",
        "os.execute",
        "os.getenv",
        "os.remove",
        "os.rename",
        "os.exit",
        "os.tmpname",
        "os.setlocale",
        "string.dump",
        "package",
    ];
    for name in never {
        let script = format!("return {{status='Healthy', message=type({name})}}");
        assert_eq!(said_open(&script), "Healthy: nil", "{name}");
    }
    let without = said("return {status=('healthy'):upper()}");
    assert!(without.starts_with("error: <string>:1: attempt to"), "{without}");
    let rows = [
        (
            "return {status='Healthy', message=('abc'):upper() .. string.format('%d-%s', 3, 'x')}",
            "Healthy: ABC3-x",
        ),
        (
            "return {status='Healthy', message=tostring(string.find('a.b', '.', 1, true))}",
            "Healthy: 2",
        ),
        ("return {status='Healthy', message=string.gsub('a-b', '-', '+')}", "Healthy: a+b"),
        (
            "local s = 0 for w in string.gmatch('a b c', '%a') do s = s + 1 end return {status='Healthy', message=s .. ''}",
            "Healthy: 3",
        ),
        (
            "return {status='Healthy', message=math.floor(3.7) .. '/' .. math.mod(7, 4) .. '/' .. math.pow(2, 3)}",
            "Healthy: 3/3/8",
        ),
        ("return {status='Healthy', message=os.difftime(5, 3) .. ''}", "Healthy: 2"),
    ];
    for (script, want) in rows {
        assert_eq!(said_open(script), want, "{script}");
    }
    let unknown = said_open("require('socket')");
    assert_eq!(unknown, "error: module socket is not available");
}

#[test]
fn the_time_is_given_and_its_use_is_known() {
    let of = |script: &str| outcome(script, false, json!({}));
    let shows = |text: &str| format!("return {{status='Healthy', message={text}}}");
    let rows = [
        ("os.time() .. ''", "1795669443", true),
        ("os.date('!%Y-%m-%dT%H:%M:%SZ')", "2026-11-26T05:04:03Z", true),
        (
            "os.date('%a %A %b %B %j %p %I %y %w %% %Q')",
            "Thu Thursday Nov November 330 AM 05 26 4 % %Q",
            true,
        ),
        ("os.date('*t').year .. ''", "2026", true),
        ("os.date('%F', 0)", "1970-01-01", false),
        (
            "os.time({year=2024, month=2, day=29, hour=12, min=30, sec=5}) .. ''",
            "1709209805",
            false,
        ),
        ("os.time({year=2024, month=2, day=29}) .. ''", "1709208000", false),
        ("os.time({year=2024, month=14, day=1, hour=0}) .. ''", "1738368000", false),
    ];
    for (script, want, clock) in rows {
        let found = of(&shows(script));
        assert_eq!(shown(&found), format!("Healthy: {want}"), "{script}");
        assert_eq!(found["clock"] == true, clock, "{script}");
    }
    for script in
        ["os.time({year=2024})", "os.date('%F', 1e300)", "os.time({year=1e18, month=1, day=1})"]
    {
        assert!(shown(&of(script)).starts_with("error: "), "{script}");
    }
}

/// Argo CD's Lua has `goto`; Luau has `continue`.
#[test]
fn goto_to_the_end_of_a_loop_goes_on_with_it() {
    let loop_with = |body: &str| {
        format!(
            "local n = 0\nfor _, c in ipairs({{1, 2, 3}}) do\n{body}\nend\nreturn \
             {{status='Healthy', message=n .. ''}}"
        )
    };
    let rows = [
        ("if c == 2 then goto continue end n = n + c ::continue::", "4"),
        ("if c == 2 then goto next_one; end n = n + c ::next_one::;", "4"),
        (
            "local i = 0 repeat i = i + 1 if i == 1 then goto a end n = n + 1 ::a:: until i == 3",
            "6",
        ),
        (
            "for j = 1, 2 do if j == 1 then goto c end n = n + 1 ::c:: end if c == 3 then goto c end n = n + 10 ::c::",
            "23",
        ),
        (
            "local f = function() for j = 1, 2 do if j == 2 then goto x end n = n + 1 ::x:: end end f()",
            "3",
        ),
        ("while true do if n == 0 then n = 1 goto x end do break end ::x:: end", "1"),
        // None of these is one.
        ("-- goto continue ::x::\nn = n + #'goto x' + #[[ ::y:: ]]", "39"),
        ("local t = {['goto'] = 1} n = n + t['goto']", "3"),
        ("::unused:: n = n + 1", "error"),
    ];
    for (body, want) in rows {
        let found = said(&loop_with(body));
        match want {
            "error" => assert!(found.starts_with("error: "), "{body}: {found}"),
            want => assert_eq!(found, format!("Healthy: {want}"), "{body}"),
        }
    }
    let outer = loop_with("for j = 1, 2 do if j == 2 then goto outer end n = n + 1 end ::outer::");
    let found = said(&outer);
    assert!(
        found.ends_with("goto may only lead to a label at the end of the innermost loop"),
        "{found}"
    );
    // The numbers of lines stay.
    let found = said("for i = 1, 1 do\n goto\n c\n ::c::\nend\nerror('x')");
    assert_eq!(found, "error: <string>:6: x");
}

/// No script evades a limit.
#[test]
fn attacks_of_scripts_end() {
    let stops = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() pcall(f) pcall(f) end f() while true do f() end",
        "repeat until false",
        "local t = setmetatable({}, {__index = function(t, k) return t[k .. 'x'] end}) while true do pcall(function() return t.a end) end",
        "local function f() return f() end f()",
        "for k in function() return 1 end do end",
        "table.sort({1, 2, 3, 4, 5, 6}, function() while true do end end)",
    ];
    for script in stops {
        let begin = Instant::now();
        let found = shown(&outcome(script, false, json!({})));
        assert!(found.starts_with("error: "), "{script}: {found}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{script}: {:?}", begin.elapsed());
    }
    let stops = [
        "local s = string.rep('a', 100000) .. 'b' while true do string.find(s, '.-.-.-.-.-.-x') end",
        "string.find(string.rep('a', 30), string.rep('a*', 30) .. 'b') while true do end",
        "local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end",
        "while true do pcall(coroutine.wrap(function() while true do end end)) end",
        "local function f() coroutine.wrap(f)() end f()",
        "string.gsub(string.rep('x', 1000), '.', function() while true do end end)",
        "local s = 'x' while true do s = s .. s end",
        "local s = string.rep('x', 1e9) return {status='Healthy'}",
        "local t = {} while true do t[#t + 1] = {} end",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local function f() f() f() end f()",
        "local t = setmetatable({}, {__tostring = function() while true do end end}) error(t)",
        "local t = setmetatable({}, {__tostring = function() while true do end end}) return tostring(t)",
    ];
    for script in stops {
        let begin = Instant::now();
        let found = shown(&outcome(script, true, json!({})));
        assert!(found.starts_with("error: "), "{script}: {found}");
        assert!(found.len() < 2000, "{script}: {} bytes", found.len());
        assert!(begin.elapsed() < Duration::from_secs(8), "{script}: {:?}", begin.elapsed());
    }
    let caught = shown(&outcome("while true do end", false, json!({})));
    assert_eq!(caught, "error: the script was stopped after 1000 ms");
}

#[test]
fn results_are_read_without_running_code_and_cut() {
    let evil = "return setmetatable({status='Healthy'}, {__index = function() error('ran') end})";
    assert_eq!(said(evil), "Healthy: ");
    let long = said_open("return {status='Healthy', message=string.rep('ä', 100000)}");
    assert_eq!(long.chars().count(), "Healthy: ".len() + super::MAX_MESSAGE + 1);
    let long = said_open("error(string.rep('x', 100000), 0)");
    assert_eq!(long.chars().count(), "error: ".len() + super::MAX_ERROR + 1);
    let large = said_open("return {status='Healthy', message=string.rep('x', 1e7)}");
    assert_eq!(large.chars().count(), "Healthy: ".len() + super::MAX_MESSAGE + 1);
    assert_eq!(said("return {status='Healthy', message='a\\255b'}"), "Healthy: a\u{fffd}b");
    let binary = said("\u{1b}LuaQ");
    assert!(binary.starts_with("error: "), "{binary}");
    // Objects as errors have no text of their own.
    let object = said("error({code = 5})");
    assert!(object.starts_with("error: "), "{object}");
    // One run does not see another one.
    assert_eq!(said("leak = 1 return {status='Healthy'}"), "Healthy: ");
    assert_eq!(said("return {status='Healthy', message=tostring(leak)}"), "Healthy: nil");
    // A script may write to its object.
    assert_eq!(
        said("obj.status.x = 'y' return {status='Healthy', message=obj.status.x}"),
        "Healthy: y"
    );
    assert!(run(json!({"script": 5})).is_err());
}

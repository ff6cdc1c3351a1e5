//! Controls headless Chromium through a pipe (`--remote-debugging-pipe`) with JSON messages of the DevTools protocol,
//! each followed by a zero byte. It needs neither a port nor a socket. Crates for this (headless_chrome, chromiumoxide)
//! depend on some 140 others.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    last: u64,
    session: Option<String>,
    profile: PathBuf,
    /// All events that the page sent.
    pub(crate) events: Vec<Value>,
}

impl Browser {
    /// Starts a browser with a page, whose console and requests are recorded from the start.
    pub(crate) fn start() -> Self {
        let program = NAMES.iter().find(|name| which(name)).unwrap_or_else(|| {
            panic!("no Chromium: install it (`bash tests/install`, or `apt-get install chromium`)");
        });
        let profile = std::env::temp_dir().join(format!(
            "tracing-gpu-browser-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        // Chromium reads from descriptor 3 and writes to 4.
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#)
            .arg("sh")
            .arg(program)
            .args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args([
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let to = child.stdin.take().expect("its input is a pipe");
        let mut answers = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while answers.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                message.pop();
                let value = serde_json::from_slice(&message).expect("messages are JSON");
                message.clear();
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self { child, to, from, last: 0, session: None, profile, events: Vec::new() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a request and waits for the answer.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let id = self.last;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap_or_else(|error| panic!("{method}: Chromium is gone: {error}"));
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let answer = self.from.recv_timeout(left).unwrap_or_else(|error| panic!("{method}: no answer: {error}"));
            if answer["id"] == json!(id) {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            if answer["method"].is_string() {
                self.events.push(answer);
            }
        }
    }

    /// Opens a file, and waits until its script has run.
    pub(crate) fn open(&mut self, path: &Path) {
        self.open_view(path, "");
    }

    /// The same with a fragment of the address, after `#`.
    pub(crate) fn open_view(&mut self, path: &Path, view: &str) {
        self.call("Page.navigate", json!({ "url": "about:blank" }));
        let url = format!("file://{}", path.display());
        self.call("Page.navigate", json!({ "url": format!("{url}{view}") }));
        self.wait_for(&format!(
            "location.href.split('#')[0] === {url:?} && document.readyState === 'complete' \
             && (document.documentElement.dataset.ready === 'yes' || !document.getElementById('column-start'))"
        ));
    }

    pub(crate) fn wait_for(&mut self, condition: &str) {
        let until = Instant::now() + PATIENCE;
        while self.eval(condition) != json!(true) {
            assert!(Instant::now() < until, "never: {condition}; told: {:?}", self.complaints());
            std::thread::sleep(Duration::from_millis(15));
        }
    }

    /// The value of an expression, awaited.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.eval(expression).as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn number(&mut self, expression: &str) -> f64 {
        self.eval(expression).as_f64().unwrap_or_else(|| panic!("{expression} is no number"))
    }

    /// Waits until the requested drawing has finished.
    pub(crate) fn settle(&mut self) {
        self.eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
    }

    /// Presses and releases a key. `modifiers`: 1 Alt, 2 Ctrl, 8 Shift.
    pub(crate) fn key(&mut self, key: &str, modifiers: u32) {
        let text = if key.chars().count() == 1 && modifiers & 2 == 0 { key } else { "" };
        let text = if key == "Enter" { "\r" } else { text };
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => key.bytes().next().map_or(0, |byte| u32::from(byte.to_ascii_uppercase())),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({
                "type": kind, "key": key, "text": text, "modifiers": modifiers, "windowsVirtualKeyCode": code,
            });
            self.call("Input.dispatchKeyEvent", event);
        }
        self.settle();
    }

    pub(crate) fn mouse(&mut self, kind: &str, (x, y): (f64, f64), more: Value) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let mut event = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": 1 });
        if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
            event.extend(more);
        }
        self.call("Input.dispatchMouseEvent", event);
        self.settle();
    }

    pub(crate) fn click(&mut self, at: (f64, f64)) {
        self.mouse("mousePressed", at, json!({}));
        self.mouse("mouseReleased", at, json!({}));
    }

    /// The middle of an element, after scrolling it into view.
    pub(crate) fn middle(&mut self, element: &str) -> (f64, f64) {
        let point = self.eval(&format!(
            "(() => {{ const e = {element}; e.scrollIntoView({{ block: 'nearest' }}); const b = e.getBoundingClientRect(); \
             return {{ x: b.x + b.width / 2, y: b.y + b.height / 2 }}; }})()"
        ));
        (point["x"].as_f64().expect("x"), point["y"].as_f64().expect("y"))
    }

    pub(crate) fn click_on(&mut self, element: &str) {
        let middle = self.middle(element);
        self.click(middle);
    }

    pub(crate) fn size(&mut self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        self.settle();
    }

    /// Sets the system's colour scheme, `light` or `dark`.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
        self.settle();
    }

    pub(crate) fn screenshot(&mut self, path: &Path) {
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let bytes = base64(shot["data"].as_str().expect("a picture"));
        std::fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Errors and warnings on the console, and requests for anything except the page itself.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let told = self.events.iter().filter_map(|event| {
            let parameters = &event["params"];
            match event["method"].as_str()? {
                // The tests read pixels, but the page does not.
                "Log.entryAdded" if parameters["entry"]["text"].as_str()?.contains("readback operations") => None,
                "Runtime.exceptionThrown" | "Log.entryAdded" => Some(parameters.to_string()),
                "Runtime.consoleAPICalled" if parameters["type"] != "log" => Some(parameters.to_string()),
                "Network.requestWillBeSent" => {
                    let url = parameters["request"]["url"].as_str()?;
                    let document = parameters["type"] == "Document" && url.starts_with("file://");
                    (!document && !url.starts_with("data:")).then(|| format!("request for {url}"))
                }
                _ => None,
            }
        });
        told.collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped = self.child.wait();
        // The browser's processes may still write to the folder.
        for _ in 0..50 {
            match std::fs::remove_dir_all(&self.profile) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    std::thread::sleep(Duration::from_millis(20))
                }
                _ => return,
            }
        }
    }
}

fn which(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn base64(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = LETTERS.iter().position(|known| *known == letter).expect("base 64");
        bits = (bits << 6 | value as u32) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

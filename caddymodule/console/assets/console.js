// Enhances the pages. Each part is found by data attributes, so that a page needs no script of its own:
//
//   button.copy[data-copy=ID]      copies the text of the element ID; button.copy[data-text=TEXT] copies TEXT.
//   time[datetime]                 shows how long ago the time is (or in how long it comes), kept current. The exact time is its
//                                  title. With data-fixed, the text stays as it is.
//   a[data-key="g c"]              the keys that open the link; input[data-key="/"] the key that focuses the input.
//   .problem[data-field=ID]        the message of the field ID. The field is invalid while there is one.
//   button[data-fill=ID]           fills data-text into the field ID, if that is empty.
//   .js-only[hidden]               is shown.
//   input[type=file][data-into=ID] reads the file that the user chooses into the field ID.
//
// Lists that update themselves:
//
//   [data-live]                    an element with hx-get and hx-trigger="every 2s". It is not updated while it is hidden, has
//                                  the focus, or #live is not checked. When a request fails, the list becomes grey
//                                  (class "stale") and says since when it is disconnected. It is tried again by its trigger.
//                                  Other sources of updates, such as SSE, report with the events console:lost and
//                                  console:found, which they dispatch on the element.
//   [data-live="rows"]             the same, for a list whose rows only change at the top. The response has an element
//                                  [data-rows] with rows, newest first, and so has the list. Each row has an id. New
//                                  rows are added at the top, at most ten a second, rows that have changed are replaced, and
//                                  those beyond data-max (100) are removed at the end. So the scroll position, the selection and the
//                                  focus stay. A row is not replaced while it has the focus or a selection. If one
//                                  of both has no [data-rows], such as a list without rows, the whole content is replaced.
//   consoleRows(list, rows)        adds rows (elements with ids, newest first) as above, for other sources of updates.
(function () {
	"use strict";
	function each(selector, root, f) { root.querySelectorAll(selector).forEach(f); }

	// Copy buttons, fields, times.
	function enhance(root) {
		each("button.copy[hidden]", root, function (button) { if (navigator.clipboard) { button.hidden = false; } });
		each("time[datetime]", root, function (time) {
			if (!time.title) { time.title = new Date(time.dateTime).toISOString(); }
		});
	}
	document.addEventListener("click", function (event) {
		var button = event.target.closest("button.copy");
		if (!button) { return; }
		var source = document.getElementById(button.dataset.copy);
		var text = button.dataset.text || (source && source.textContent);
		if (!text) { return; }
		navigator.clipboard.writeText(text).then(function () {
			var before = button.textContent;
			button.textContent = "Copied";
			setTimeout(function () { button.textContent = before; }, 1500);
		});
	});
	document.addEventListener("click", function (event) {
		var button = event.target.closest("button[data-fill]"), field = button && document.getElementById(button.dataset.fill);
		if (!field) { return; }
		if (!field.value.trim()) {
			field.value = button.dataset.text;
			field.rows = Math.min(field.value.split("\n").length, 20);
		}
		field.focus();
	});
	document.addEventListener("change", function (event) {
		var field = event.target.dataset && document.getElementById(event.target.dataset.into);
		if (field && event.target.files[0]) { event.target.files[0].text().then(function (text) { field.value = text; }); }
	});
	function markFields() {
		each(".problem[data-field]", document, function (problem) {
			var field = document.getElementById(problem.dataset.field);
			if (!field) { return; }
			if (problem.textContent) { field.setAttribute("aria-invalid", "true"); } else { field.removeAttribute("aria-invalid"); }
		});
	}
	function ago(time) {
		var seconds = (Date.now() - time) / 1000, past = seconds >= 0, n = Math.abs(seconds);
		if (past && n < 2 || n < 1) { return "now"; }
		if (!past && n > 120) { n += 30; } // what is planned in 7 days is not in 6 days a moment later
		var text = n < 120 ? Math.floor(n) + " s" : n < 7200 ? Math.floor(n / 60) + " min" : n < 172800 ? Math.floor(n / 3600) + " h" : Math.floor(n / 86400) + " days";
		return past ? text + " ago" : "in " + text;
	}
	setInterval(function () {
		if (document.hidden) { return; }
		each("time[datetime]:not([data-fixed])", document, function (element) {
			var text = ago(new Date(element.dateTime));
			if (element.textContent !== text) { element.textContent = text; }
		});
	}, 1000);

	// Keys.
	var pressed = "", dialog = document.getElementById("keys"), use = document.getElementById("use-keys");
	function stored(value) {
		try {
			if (value !== undefined) { localStorage.setItem("console-keys", value); }
			return localStorage.getItem("console-keys");
		} catch (e) { return null; }
	}
	function showKeys() {
		var list = document.getElementById("key-list");
		list.textContent = "";
		function add(key, text) {
			var term = document.createElement("dt"), name = document.createElement("dd"), code = document.createElement("kbd");
			code.textContent = key;
			term.append(code);
			name.textContent = text;
			list.append(term, name);
		}
		add("/", "Search");
		each("nav a[data-key]", document, function (a) { add(a.dataset.key, a.textContent); });
		add("?", "This list");
		dialog.showModal();
	}
	if (dialog) {
		use.checked = stored() !== "off";
		use.addEventListener("change", function () { stored(use.checked ? "on" : "off"); });
		document.getElementById("show-keys").addEventListener("click", showKeys);
	}
	document.addEventListener("keydown", function (event) {
		var typing = event.target.closest("input, textarea, select, [contenteditable]");
		if (!dialog || !use.checked || typing || dialog.open || event.ctrlKey || event.metaKey || event.altKey) { pressed = ""; return; }
		if (event.key === "Shift") { return; }
		if (event.key === "?") { event.preventDefault(); showKeys(); return; }
		var keys = pressed ? pressed + " " + event.key : event.key, target = document.querySelector('[data-key="' + CSS.escape(keys) + '"]');
		pressed = event.key === "g" ? "g" : "";
		if (!target) { return; }
		event.preventDefault();
		if (target.tagName === "A") { target.click(); } else { target.focus(); target.select(); }
	});

	// Lists that update themselves.
	function liveOf(event) { return event.target.closest ? event.target.closest("[data-live]") : null; }
	function lost(list) {
		if (!list || list.classList.contains("stale")) { return; }
		list.classList.add("stale");
		if (document.querySelector(".disconnected")) { return; } // of another list of the page
		var notice = document.createElement("p"), time = document.createElement("time");
		notice.className = "notice disconnected";
		notice.setAttribute("role", "status");
		time.dateTime = time.title = new Date().toISOString();
		time.dataset.fixed = "yes";
		time.textContent = new Date().toLocaleTimeString();
		notice.append("Disconnected since ", time, ", retrying.");
		list.before(notice);
	}
	function found(list) {
		if (!list || !list.classList.contains("stale")) { return; }
		list.classList.remove("stale");
		if (list.previousElementSibling && list.previousElementSibling.classList.contains("disconnected")) { list.previousElementSibling.remove(); }
	}
	["htmx:sendError", "htmx:responseError", "htmx:timeout", "console:lost"].forEach(function (name) {
		document.addEventListener(name, function (event) { lost(liveOf(event)); });
	});
	// A server that does not respond is noticed, too. htmx sends no further request of a list before.
	document.addEventListener("htmx:configRequest", function (event) {
		if (event.target.hasAttribute("data-live")) { event.detail.timeout = 7000; }
	});
	document.addEventListener("htmx:afterRequest", function (event) { if (event.detail.successful) { found(liveOf(event)); } });
	document.addEventListener("console:found", function (event) { found(liveOf(event)); });
	document.addEventListener("change", function (event) {
		if (event.target.id === "f-since") { // the times would precede it
			each("#f-from, #f-to", document, function (field) { field.value = ""; });
		}
		if (event.target.id === "live") { document.body.dataset.paused = event.target.checked ? "" : "yes"; }
	});
	document.addEventListener("htmx:beforeRequest", function (event) {
		var list = event.target;
		if (!list.hasAttribute || !list.hasAttribute("data-live")) { return; }
		var busy = list.dataset.live !== "rows" && list.contains(document.activeElement);
		if (document.body.dataset.paused === "yes" || document.hidden || busy) { event.preventDefault(); }
	});
	function inUse(row) {
		var selection = getSelection();
		return row.contains(document.activeElement) || selection.rangeCount > 0 && !selection.isCollapsed && selection.containsNode(row, true);
	}
	var waiting = new Map(), perTick = 1, tick = 100; // ten rows a second
	function addRows(list, rows) {
		var body = list.querySelector("[data-rows]"), max = Number(list.dataset.max) || 100, queue = waiting.get(list) || [];
		Array.from(rows).reverse().forEach(function (row) {
			var known = row.id && document.getElementById(row.id), queued = queue.findIndex(function (other) { return other.id === row.id; });
			if (known && body.contains(known)) {
				if (!inUse(known) && contentOf(known) !== contentOf(row)) { known.replaceWith(row); process(row); }
			} else if (queued >= 0) {
				queue[queued] = row;
			} else if (row.id) {
				queue.push(row);
			}
		});
		waiting.set(list, queue.slice(-max));
	}
	// The row without what this script changes in it.
	function contentOf(row) {
		var copy = row.cloneNode(true);
		each("time", copy, function (time) { time.textContent = ""; time.removeAttribute("title"); });
		each("button.copy", copy, function (button) { button.hidden = true; });
		return copy.outerHTML;
	}
	function process(row) {
		enhance(row);
		if (window.htmx) { htmx.process(row); }
	}
	setInterval(function () {
		waiting.forEach(function (queue, list) {
			var body = list.querySelector("[data-rows]"), max = Number(list.dataset.max) || 100;
			if (!list.isConnected || !body) { waiting.delete(list); return; }
			queue.splice(0, perTick).forEach(function (row) {
				var top = body.getBoundingClientRect().top, before = body.offsetHeight;
				body.prepend(row);
				process(row);
				if (top < 0) { scrollBy(0, body.offsetHeight - before); } // what is in view stays where it is
				while (body.children.length > max && !inUse(body.lastElementChild)) { body.lastElementChild.remove(); }
			});
		});
	}, tick);
	document.addEventListener("htmx:beforeSwap", function (event) {
		var list = event.detail.target;
		if (!list || !list.dataset || list.dataset.live !== "rows" || !event.detail.shouldSwap) { return; }
		var response = new DOMParser().parseFromString(event.detail.serverResponse, "text/html"), rows = response.querySelector("[data-rows]");
		if (!rows || !list.querySelector("[data-rows]")) { return; }
		event.detail.shouldSwap = false;
		addRows(list, rows.children);
	});
	window.consoleRows = addRows;

	document.addEventListener("htmx:load", function (event) { enhance(event.target); });
	document.addEventListener("htmx:afterSettle", markFields);
	enhance(document);
	each(".js-only", document, function (element) { element.hidden = false; });
})();

// Updates lists and runs in place: what has not changed keeps its selection, its focus and its open parts.
(function () {
	"use strict";
	function hasText(element) {
		return Array.from(element.childNodes).some(function (node) { return node.nodeType === Node.TEXT_NODE && node.data.trim(); });
	}
	// merge changes an element to be like a fresh one. Children are matched by id, or else by their position.
	function merge(old, fresh) {
		if (old.isEqualNode(fresh)) { return; }
		if (old.tagName !== fresh.tagName || !fresh.children.length || hasText(fresh)) { old.replaceWith(fresh); return; }
		if (old.tagName !== "DETAILS") {
			Array.from(fresh.attributes).forEach(function (attribute) { old.setAttribute(attribute.name, attribute.value); });
		}
		mergeChildren(old, fresh);
	}
	function mergeChildren(old, fresh) {
		var next = old.firstElementChild;
		Array.from(fresh.children).forEach(function (child) {
			var mine = next && next.id === child.id ? next : null;
			if (!mine && child.id) { mine = Array.from(old.children).find(function (other) { return other.id === child.id; }); }
			if (!mine) { old.insertBefore(child, next); return; }
			if (mine === next) { next = next.nextElementSibling; } else { old.insertBefore(mine, next); }
			merge(mine, child);
		});
		while (next) {
			var after = next.nextElementSibling;
			next.remove();
			next = after;
		}
	}
	document.addEventListener("htmx:beforeSwap", function (event) {
		var target = event.detail.target;
		if (!target.hasAttribute("data-merge") || event.detail.xhr.status !== 200) { return; }
		event.detail.shouldSwap = false;
		var fresh = document.createElement("template");
		fresh.innerHTML = event.detail.xhr.responseText;
		mergeChildren(target, fresh.content);
		showWriting();
	});
	// The number of reviews that wait is in the title, too.
	document.addEventListener("htmx:afterSwap", function (event) {
		var count = event.target.id === "waiting" && event.target.querySelector("[data-count]");
		if (!count) { return; }
		document.title = (count.dataset.count === "0" ? "" : "(" + count.dataset.count + ") ") + document.title.replace(/^\(\d+\) /, "");
	});
	// A run in progress follows its events: each state refreshes the page, texts of the model are appended.
	var live = document.querySelector("[data-stream]");
	var writing = { turn: 0, text: "" };
	var refreshing = 0;
	function showWriting() {
		var place = document.getElementById("writing");
		if (place && Number(place.dataset.turn) === writing.turn) { place.textContent = writing.text; }
	}
	function refresh() {
		if (refreshing) { return; }
		refreshing = setTimeout(function () {
			refreshing = 0;
			window.htmx.trigger(live, "refresh");
		}, 200);
	}
	function follow() {
		var notice = document.getElementById("disconnected");
		var events = new EventSource(live.dataset.stream);
		events.onopen = function () { notice.hidden = true; };
		events.onerror = function () {
			notice.hidden = false;
			if (events.readyState === EventSource.CLOSED) { setTimeout(follow, 3000); }
		};
		events.addEventListener("state", function (event) {
			var status = JSON.parse(event.data).status;
			if (status === "complete" || status === "error") { events.close(); }
			refresh();
		});
		events.addEventListener("text", function (event) {
			var piece = JSON.parse(event.data);
			writing.text = piece.turn === writing.turn ? writing.text + piece.text : piece.text;
			writing.turn = piece.turn;
			showWriting();
		});
	}
	if (live && window.EventSource) { follow(); }
})();

// Enhances the pages: buttons that copy, times that stay current, and a pause of the live list.
(function () {
	"use strict";
	function enhance(root) {
		root.querySelectorAll("button.copy[hidden]").forEach(function (button) {
			if (navigator.clipboard) { button.hidden = false; }
		});
	}
	document.addEventListener("click", function (event) {
		var button = event.target.closest("button.copy");
		if (!button) { return; }
		var source = document.getElementById(button.dataset.copy);
		if (!source) { return; }
		navigator.clipboard.writeText(source.textContent).then(function () {
			var before = button.textContent;
			button.textContent = "Copied";
			setTimeout(function () { button.textContent = before; }, 1500);
		});
	});
	document.addEventListener("change", function (event) {
		if (event.target.id === "live") { document.body.dataset.paused = event.target.checked ? "" : "yes"; }
	});
	// The list does not change while it is paused, hidden, or has the focus.
	document.addEventListener("htmx:beforeRequest", function (event) {
		var list = event.target;
		if (!list.hasAttribute || !list.hasAttribute("data-live")) { return; }
		if (document.body.dataset.paused === "yes" || document.hidden || list.contains(document.activeElement)) { event.preventDefault(); }
	});
	document.addEventListener("htmx:load", function (event) { enhance(event.target); });
	enhance(document);
	document.querySelectorAll(".js-only").forEach(function (element) { element.hidden = false; });
})();

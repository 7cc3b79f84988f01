// Draws the charts of the overview from the table of their numbers, which is the text form of the charts:
//
//   [data-chart=ID]   a chart of the table ID. Its first column has times. The chart has the other columns but the last two,
//                     stacked, if it has data-stacked; or else its last two columns. A click opens the link of the row of its time.
(function () {
	"use strict";
	var colors = { ok: "#2e9e5b", replayed: "#7fbf9a", refused: "#d9822b", rate_limited: "#c9a227", restricted: "#8e5bd0", invalid: "#3f88c5", unauthorized: "#5c6bc0" };
	var others = ["#c23934", "#a0522d", "#6b7785", "#b0306a", "#00838f", "#827717"];
	function columnsOf(table) {
		var names = Array.from(table.querySelectorAll("thead th")).map(function (th) { return th.textContent; });
		var columns = names.map(function () { return []; });
		table.querySelectorAll("tbody tr").forEach(function (row) {
			Array.from(row.cells).forEach(function (cell, i) {
				var time = cell.querySelector("time");
				columns[i].push(time ? Date.parse(time.dateTime) / 1000 : Number(cell.textContent));
			});
		});
		return { names: names, columns: columns };
	}
	// stack adds to each series those below it.
	function stack(series) {
		var sum = series[0].map(function () { return 0; });
		return series.map(function (values) { return sum = values.map(function (value, i) { return value + sum[i]; }); });
	}
	function draw(place) {
		var table = document.getElementById(place.dataset.chart);
		if (!table || !window.uPlot) { return; }
		var all = columnsOf(table), stacked = place.hasAttribute("data-stacked"), count = all.names.length;
		var chosen = stacked ? [1, count - 2] : [count - 2, count];
		var names = all.names.slice(chosen[0], chosen[1]), values = all.columns.slice(chosen[0], chosen[1]);
		if (stacked) { values = stack(values); }
		var text = getComputedStyle(document.body).getPropertyValue("--dim"), line = getComputedStyle(document.body).getPropertyValue("--line"), next = 0;
		var axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
		var series = names.map(function (name, i) {
			var color = stacked ? colors[name] || others[next++ % others.length] : ["#3f88c5", "#d9822b"][i];
			return { label: name, stroke: color, width: 1.5, fill: stacked ? color : undefined, points: { show: false } };
		});
		// The highest of the stack is drawn first, so that those below it cover it.
		if (stacked) { series.reverse(); values.reverse(); }
		place.textContent = "";
		var chart = new window.uPlot({
			width: place.clientWidth, height: 200, series: [{}].concat(series), axes: [axis, Object.assign({ size: 60 }, axis)],
			legend: { live: false }, cursor: { drag: { x: false, y: false } }, scales: { y: { range: function (u, low, high) { return [0, high > 0 ? high * 1.05 : 1]; } } }
		}, [all.columns[0]].concat(values), place);
		chart.over.addEventListener("click", function () {
			var row = table.tBodies[0].rows[chart.cursor.idx], link = row && row.querySelector("a");
			if (link) { link.click(); }
		});
	}
	function drawAll() {
		document.querySelectorAll("[data-chart]").forEach(function (place) { place.hidden = false; draw(place); });
	}
	document.addEventListener("htmx:afterSettle", drawAll);
	var waiting = 0;
	window.addEventListener("resize", function () { clearTimeout(waiting); waiting = setTimeout(drawAll, 150); });
	drawAll();
})();

package dashboard

import (
	"cmp"
	"time"

	"golang.org/x/net/html"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
)

// whole returns the page, including the part that changes.
func whole(p shown) part {
	return all(
		func(root *html.Node) { root.AppendChild(&html.Node{Type: html.DoctypeNode, Data: "html"}) },
		el("html", attr("lang", "en"),
			el("head",
				el("meta", attr("charset", "utf-8")),
				el("meta", attr("name", "viewport"), attr("content", "width=device-width, initial-scale=1")),
				el("meta", attr("name", "color-scheme"), attr("content", "light dark")),
				el("title", text(string(p.Status)+": "+cmp.Or(p.Cluster, "no answer")+" - Holdfast")),
				el("link", attr("rel", "icon"), attr("type", "image/svg+xml"), attr("href", "icon.svg")),
				el("link", attr("rel", "stylesheet"), attr("href", "style.css")),
				el("noscript", el("meta", attr("http-equiv", "refresh"), attr("content", "5"))),
				el("script", attr("src", "live.js"), attr("defer", "")),
			),
			el("body",
				el("p", attr("id", "stale"), class("stale"), attr("role", "alert"), attr("hidden", "")),
				el("p", attr("id", "news"), class("unseen"), attr("role", "status"), attr("aria-live", "polite")),
				el("div", attr("id", "view"), attr("data-mark", p.Mark), changing(p)),
				el("footer", el("p", text("Read-only. The same as "), code("holdfast status"), text(". For programs: "),
					el("a", attr("href", "view.json"), text("view.json")), text("."))),
			),
		),
	)
}

// changing returns the part of the page that changes.
func changing(p shown) part {
	if p.Failed != "" {
		return all(
			el("header", class("top unknown"), el("div", el("p", class("name"), text("Holdfast")), el("h1", text("Nothing can be shown")))),
			el("main", el("section", class("card"), el("p", text(p.Failed)))),
		)
	}
	status := string(p.Status)
	return all(
		el("header", class("top "+status), attr("id", "status"), attr("data-status", status),
			el("div",
				el("p", class("name"), text(p.Cluster)),
				el("h1", el("span", class("badge "+status), text(status)), text(" "+p.Summary)),
			),
			el("p", class("seen"), text("Seen "), moment(p.At)),
		),
		el("main",
			redundancy(p.Redundancy),
			card("card", "todo", "What to do", toDo(p.Findings)),
			hosts(p.Hosts),
			when(p.Upgrade != nil, upgrade(p.Upgrade)),
			el("div", class("two"),
				when(len(p.Fencing) > 0, card("card fencing", "fencing", "Fencing", each(p.Fencing, fencing))),
				when(len(p.VIPs) > 0, card("card", "vips", "Virtual IPs", vips(p.VIPs))),
				when(len(p.Incidents) > 0, card("card", "incidents", "Last incidents", incidents(p.Incidents))),
				card("card quiet", "sources", "Seen by", el("ul", class("plain"), each(p.Sources, source))),
			),
		),
	)
}

// card is a section with a heading. An empty class gives a plain section.
func card(classes, id, heading string, parts ...part) part {
	return el("section", when(classes != "", class(classes)), attr("aria-labelledby", "h-"+id),
		el("h2", attr("id", "h-"+id), text(heading)), all(parts...))
}

func redundancy(r standing.Redundancy) part {
	return card("card redundancy "+string(r.Survives), "redundancy", "Redundancy",
		el("p", class("big"), text(page.Capital(r.Sentence)+".")),
		when(len(r.Losses) > 0, el("ul", class("losses"), each(r.Losses, func(l standing.Loss) part {
			return el("li", dot(l.Survives), el("span", text("If "), strong(l.Host), text(" is lost: "+l.Words()+".")))
		}))),
	)
}

func toDo(list []finding.Finding) part {
	if len(list) == 0 {
		return el("p", class("nothing"), text("Nothing."))
	}
	return el("ol", class("findings"), each(list, func(f finding.Finding) part {
		severity := string(f.Severity)
		return el("li", class("finding "+severity),
			el("p", class("what"), el("span", class("tag "+severity), text(severity)), text(" "+f.Problem)),
			el("p", text(f.Meaning)),
			each(f.Commands, func(c finding.Command) part {
				return el("p", class("type"), text("Type"), when(c.Host != "", text(" on "), strong(c.Host)), text(": "), code(c.Line))
			}),
			when(f.Page != "", el("p", class("read"), text("Read "), el("cite", text(f.Page)))),
		)
	}))
}

func hosts(list []standing.HostLine) part {
	if len(list) == 0 {
		return card("", "hosts", "Hosts", el("p", text("No source reported any host.")))
	}
	return card("", "hosts", "Hosts", el("div", class("hosts"), each(list, func(h standing.HostLine) part {
		return el("article", class("card host"), attr("aria-label", h.Name),
			el("h3", text(h.Name)),
			el("p", class("role"), text(h.Role), each(h.Addresses, func(a string) part {
				return all(text(" "), el("span", class("address"), text(a)))
			})),
			el("dl", cell("power", h.Power), cell("kubelet", h.Kubelet), cell("record", h.Record), cell("etcd", h.Etcd), cell("lag", h.Lag)),
		)
	})))
}

func fencing(f standing.FencingLine) part {
	return all(
		el("h3", text(f.Host)),
		el("dl", cell("fencing", f.Able), cell("verified", f.Verified), cell("last fence", f.Last)),
	)
}

func vips(list []standing.VIPLine) part {
	column := func(name string) part { return el("th", attr("scope", "col"), text(name)) }
	return el("div", class("scroll"), el("table",
		el("thead", el("tr", column("Address"), column("For"), column("Holder"))),
		el("tbody", each(list, func(v standing.VIPLine) part {
			return el("tr",
				el("th", attr("scope", "row"), text(v.Address)),
				el("td", text(v.Kind)),
				el("td", dot(v.Holder.Good), text(" "+v.Holder.Text)))
		})),
	))
}

func upgrade(b *people.Brief) part {
	if b == nil {
		return all()
	}
	return card("card", "upgrade", "Upgrade",
		el("p", text(b.Sentence())),
		el("ul", class("plain"), each(b.Hosts, func(h people.BriefHost) part { return el("li", strong(h.Name), text(" "+h.Doing)) })),
		el("p", class("type"), text("More: "), code("holdfast upgrade status")),
	)
}

func incidents(list []standing.Incident) part {
	return all(
		el("ul", class("plain"), each(list, func(i standing.Incident) part {
			return el("li", moment(i.At), text(" "+i.Summary+" ("+i.Kind+")"))
		})),
		el("p", class("type"), text("More: "), code("holdfast incidents show 1")),
	)
}

func source(s standing.SourceLine) part {
	return el("li", strong(s.Name), text(": "+s.Text), each(s.Limits, func(limit string) part {
		return all(el("br"), text("not read: "+limit))
	}))
}

// cell is a value with its name on the page.
func cell(name string, c standing.Cell) part {
	return when(c.Text != "", el("div",
		el("dt", text(name)),
		el("dd", dot(c.Good), el("span", text(c.Text)), when(c.From != "", el("span", class("from"), text("reported by "+c.From)))),
	))
}

// dot is a mark that screen readers skip.
func dot(a standing.Answer) part {
	return el("span", class("dot "+string(a)), attr("aria-hidden", "true"))
}

func strong(s string) part { return el("strong", text(s)) }

func code(s string) part { return el("code", text(s)) }

func moment(t time.Time) part {
	return el("time", attr("datetime", t.UTC().Format("2006-01-02T15:04:05Z")), text(t.UTC().Format("2006-01-02 15:04:05Z")))
}

package doctor

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
)

// WillExpire judges the check "certificates" by what will have expired after a
// time: a warning where nobody renews it, a note where a program does while its
// host runs.
func WillExpire(f Facts, after time.Duration) Result {
	c, _ := Find("certificates") // it is in the table
	c.judge = func(s *sheet) { judgeExpiry(s, s.At.Add(after)) }
	return c.examine(f)
}

func judgeExpiry(s *sheet, by time.Time) {
	eachHost(s, "certificates", func(h Host) state.Fact[[]Certificate] { return h.Certificates }, func(h Host, list []Certificate) {
		rest := "no certificate"
		for _, c := range list {
			if c.Ends.After(by) {
				continue
			}
			rest = "no other certificate"
			level, who := finding.Warning, "nothing renews it"
			switch renewer := renewerOf(c); {
			case c.Lacks != "":
				who = "nothing renews it here, because " + c.Lacks + " is not on this host"
			case renewer != "":
				level, who = finding.Note, renewer+" renews it while the host runs"
			}
			s.say(level, h.Name, "%s %s, on %s: %s", c.Path, ends(c.Ends.Sub(s.At)), date(c.Ends), who)
		}
		s.say(finding.OK, h.Name, "%s expires until %s", rest, date(by))
	})
	if list, is := known(s, "certificates in the API", s.Cluster.Ends); is {
		s.endings(list, by)
	}
}

// endings judges what has no file on a host.
func (s *sheet) endings(list []Ending, by time.Time) {
	for _, e := range list {
		if e.Ends.After(by) {
			continue
		}
		level, who := finding.Warning, "nothing renews it"
		switch {
		case e.Personal:
			level, who = finding.Note, "nothing renews it; 'holdfast kubeconfig' makes another one"
		case e.Renewer != "":
			level, who = finding.Note, e.Renewer+" renews it"
		}
		s.say(level, "", "%s %s, on %s: %s", e.What, ends(e.Ends.Sub(s.At)), date(e.Ends), who)
	}
}

// renewerOf returns the program that renews a certificate in time, empty where
// nobody does.
func renewerOf(c Certificate) string {
	switch {
	case slices.ContainsFunc(leafcert.Leaves(), func(l leafcert.Leaf) bool { return l.Path == c.Path }):
		return "holdfast-agent"
	case c.Path == state.AgentPair, path.Dir(c.Path) == "/etc/kubernetes/pki/holdfast":
		return "holdfast-agent"
	case strings.HasPrefix(path.Base(c.Path), "kubelet-client-"), strings.HasPrefix(path.Base(c.Path), "kubelet-server-"):
		return "kubelet"
	}
	return ""
}

func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
)

// docs/facts/life.md#certificates, L-C9, L-C10: a clock that is wrong is told from
// certificates that have expired.
func TestAHostTellsAWrongClockFromExpiredCertificates(t *testing.T) {
	day := 24 * time.Hour
	today := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	cert := func(path string, begins, ends time.Duration) Certificate {
		return Certificate{Path: path, Begins: today.Add(begins), Ends: today.Add(ends)}
	}
	api, kubelet := leafcert.APIServer, "/var/lib/kubelet/pki/kubelet-client-current.pem"
	ca := func(ends time.Duration) Certificate {
		c := cert("/etc/kubernetes/pki/ca.crt", -3650*day, ends)
		c.Authority = true
		return c
	}
	lacking := func(c Certificate) Certificate {
		c.Lacks = "/etc/kubernetes/pki/ca.key"
		return c
	}
	yes, no := state.Known(true), state.Known(false)
	const log = "sudo journalctl -u holdfast-agent -g certificate"
	for what, c := range map[string]struct {
		synchronised state.Fact[bool]
		has          []Certificate
		// want has for each finding its id, its page, words of the problem, words of the
		// meaning, and what is typed.
		want [][]string
	}{
		"all is well":          {yes, []Certificate{cert(api, -day, day), cert(kubelet, -day, day), ca(day)}, nil},
		"nothing is there":     {no, nil, nil},
		"a control plane woke": {yes, []Certificate{cert(api, -400*day, -35*day), cert(kubelet, -400*day, -35*day), ca(day)}, [][]string{{"certificates", pageLeaves, "certificates on cp-1 have expired: " + api + " (on 2026-10-21), " + kubelet, "Its agent renews them by itself", log}}},
		"a worker woke":        {yes, []Certificate{cert(kubelet, -400*day, -35*day), ca(day)}, [][]string{{"certificates", pageExpired, kubelet, "Its agent gets another one from a control plane by itself", log}}},
		"a clock that may be ahead": {no, []Certificate{cert(kubelet, -400*day, -35*day)}, [][]string{
			{"certificates", pageExpired, kubelet, "Nothing synchronises this clock. If 2026-11-25 12:00 UTC is not the time now, it is ahead, and the certificates are good", log},
		}},
		"a clock of which nothing is known": {state.Fact[bool]{}, []Certificate{cert(kubelet, -400*day, -35*day)}, [][]string{{"certificates", pageExpired, kubelet, "It is unknown whether anything synchronises this clock.", log}}},
		"it expires now":                    {yes, []Certificate{cert(kubelet, -day, 0)}, [][]string{{"certificates", pageExpired, kubelet, "", log}}},
		"the key is elsewhere":              {yes, []Certificate{lacking(cert(api, -400*day, -day))}, [][]string{{"certificates", pageLeaves, api, "/etc/kubernetes/pki/ca.key is not on this host", "sudo holdfast doctor certificates"}}},
		"an authority too":                  {yes, []Certificate{cert(api, -400*day, -day), ca(-day)}, [][]string{{"certificates", pageAuthorities, "authorities on cp-1 have expired: /etc/kubernetes/pki/ca.crt", "nothing renews them", "sudo holdfast doctor certificates"}, {"certificates", pageLeaves, api, "", log}}},
		"five of them":                      {yes, []Certificate{cert("/1", -day, -1), cert("/2", -day, -1), cert("/3", -day, -1), cert("/4", -day, -1), cert("/5", -day, -1)}, [][]string{{"certificates", pageExpired, "/3 (on 2026-11-25), 2 more", "", log}}},
		"a clock in 1970":                   {no, []Certificate{cert(api, 20*day, 400*day), cert(kubelet, 30*day, 400*day)}, [][]string{{"clock-behind", pageClock, kubelet + " is valid from 2026-12-25 12:00 UTC on", "Nothing synchronises this clock.", "sudo chronyc makestep", "sudo holdfast certificates clock"}}},
		"a worker's clock in 1970":          {yes, []Certificate{cert(kubelet, 30*day, 400*day)}, [][]string{{"clock-behind", pageClock, kubelet, "This clock is synchronised.", "sudo chronyc makestep", "sudo holdfast certificates clock"}}},
		"behind one and after another":      {yes, []Certificate{cert(api, -400*day, -day), cert(kubelet, day, 400*day)}, [][]string{{"clock-behind", pageClock, kubelet, "nothing is judged as expired", "sudo chronyc makestep", "sudo holdfast certificates clock"}}},
	} {
		found := Own{Host: "cp-1", Now: today, Synchronised: c.synchronised, Certificates: c.has}.Findings()
		if len(found) != len(c.want) {
			t.Errorf("%s: %+v", what, found)
			continue
		}
		for i, f := range found {
			want := c.want[i]
			var typed []string
			for _, command := range f.Commands {
				typed = append(typed, command.Line)
			}
			if string(f.ID) != want[0] || f.Page != want[1] || !strings.Contains(f.Problem, want[2]) || !strings.Contains(f.Meaning, want[3]) || strings.Join(typed, "; ") != strings.Join(want[4:], "; ") {
				t.Errorf("%s: %+v", what, f)
			}
			if f.Severity != finding.Critical || f.Subject != "cp-1" || strings.HasSuffix(f.Problem, ".") {
				t.Errorf("%s: %+v", what, f)
			}
		}
	}
}

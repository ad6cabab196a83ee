package vips_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/state"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// question is the question that hosts were asked at noon.
var question = state.VIPProbe{ID: "q", At: noon, Addresses: addrs("fd98::5", "fd98::6")}

// asked gives hosts the question.
func asked(hosts []vips.Host, names ...string) []vips.Host {
	for i := range hosts {
		if slices.Contains(names, hosts[i].Name) {
			hosts[i].Probe = state.Known(question)
		}
	}
	return hosts
}

// answers makes a host answer: an address is free unless it is held.
func answers(hosts []vips.Host, name, id string, held map[netip.Addr]string) []vips.Host {
	for i := range hosts {
		if hosts[i].Name != name {
			continue
		}
		a := state.VIPAnswer{ID: id, Held: held}
		for _, addr := range question.Addresses {
			if held[addr] == "" {
				a.Free = append(a.Free, addr)
			}
		}
		hosts[i].Answer = state.Known(a)
	}
	return hosts
}

var taken = map[netip.Addr]string{addr("fd98::6"): "52:54:00:00:00:99"}

func TestWhoIsAskedWhoAnswers(t *testing.T) {
	wanted := question.Addresses
	for _, c := range []struct {
		sentence string
		hosts    func([]vips.Host) []vips.Host
		after    time.Duration
		want     string
	}{
		{
			"all control planes that are ready are asked", func(h []vips.Host) []vips.Host { return h }, 0,
			"ask [cp-1 cp-2] clear [] found map[] silent []",
		},
		{
			"one that is not ready is not asked", func(h []vips.Host) []vips.Host { h[0].Ready = false; return h }, 0,
			"ask [cp-2] clear [] found map[] silent []",
		},
		{"workers are asked where no control plane is ready", func(h []vips.Host) []vips.Host {
			h[0].Ready, h[1].Ready = false, false
			return h
		}, 0, "ask [w-1] clear [] found map[] silent []"},
		{
			"hosts are given time", func(h []vips.Host) []vips.Host { return asked(h, "cp-1", "cp-2") }, time.Second,
			"ask [] clear [] found map[] silent [cp-1 cp-2]",
		},
		{"one that finds nobody is not enough while others look", func(h []vips.Host) []vips.Host {
			return answers(asked(h, "cp-1", "cp-2"), "cp-1", "q", nil)
		}, time.Second, "ask [] clear [] found map[] silent [cp-2]"},
		{"one that finds nobody is enough once the others had their time", func(h []vips.Host) []vips.Host {
			return answers(asked(h, "cp-1", "cp-2"), "cp-1", "q", nil)
		}, 3 * time.Second, "ask [] clear [] found map[fd98::5:{  } fd98::6:{  }] silent [cp-2]"},
		{"all find nobody", func(h []vips.Host) []vips.Host {
			return answers(answers(asked(h, "cp-1", "cp-2"), "cp-1", "q", nil), "cp-2", "q", nil)
		}, 2 * time.Second, "ask [] clear [] found map[fd98::5:{  } fd98::6:{  }] silent []"},
		{"one that finds somebody is enough", func(h []vips.Host) []vips.Host {
			return answers(asked(h, "cp-1", "cp-2"), "cp-2", "q", taken)
		}, time.Second, "ask [] clear [] found map[fd98::6:{52:54:00:00:00:99 cp-2 }] silent [cp-1]"},
		{"somebody may be a host of ours that was off when the address went", func(h []vips.Host) []vips.Host {
			h[2].Report.Value.Holds = addrs("fd98::6")
			return answers(asked(h, "cp-1", "cp-2"), "cp-2", "q", taken)
		}, time.Second, "ask [] clear [] found map[fd98::6:{52:54:00:00:00:99 cp-2 w-1}] silent [cp-1]"},
		{"an answer to another question is none", func(h []vips.Host) []vips.Host {
			return answers(answers(asked(h, "cp-1", "cp-2"), "cp-1", "old", nil), "cp-2", "old", nil)
		}, 10 * time.Second, "ask [] clear [] found map[] silent [cp-1 cp-2]"},
		{"hosts that stay silent, as an older agent does, are asked anew and never taken for a no", func(h []vips.Host) []vips.Host {
			return asked(h, "cp-1", "cp-2")
		}, 15 * time.Second, "ask [cp-1 cp-2] clear [] found map[] silent [cp-1 cp-2]"},
		{"what was found is looked for anew after a minute, and stands meanwhile", func(h []vips.Host) []vips.Host {
			return answers(asked(h, "cp-1", "cp-2"), "cp-2", "q", taken)
		}, time.Minute, "ask [cp-1 cp-2] clear [] found map[fd98::6:{52:54:00:00:00:99 cp-2 }] silent []"},
		{"it stands too while the new question is open", func(h []vips.Host) []vips.Host {
			return answers(asked(h, "cp-1", "cp-2"), "cp-2", "old", taken)
		}, time.Second, "ask [] clear [] found map[fd98::6:{52:54:00:00:00:99 cp-2 }] silent [cp-1 cp-2]"},
		{"and not for ever, should that host be gone", func(h []vips.Host) []vips.Host {
			return answers(asked(h, "cp-1", "cp-2"), "cp-2", "old", taken)
		}, 4 * time.Second, "ask [] clear [] found map[] silent [cp-1 cp-2]"},
		{"that nobody was found does not stand", func(h []vips.Host) []vips.Host {
			return answers(answers(asked(h, "cp-1", "cp-2"), "cp-1", "q", nil), "cp-2", "q", nil)
		}, time.Minute, "ask [cp-1 cp-2] clear [] found map[] silent []"},
		{"a clock that was set back makes a question old", func(h []vips.Host) []vips.Host {
			return answers(answers(asked(h, "cp-1", "cp-2"), "cp-1", "q", nil), "cp-2", "q", nil)
		}, -time.Hour, "ask [cp-1 cp-2] clear [] found map[] silent []"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			p := vips.Probe(wanted, c.hosts(one().Hosts), noon.Add(c.after))
			got := fmt.Sprintf("ask %v clear %v found %v silent %v", p.Ask, p.Clear, p.Found, p.Silent)
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if len(p.Ask) > 0 && (p.Request.ID == question.ID || !slices.Equal(p.Request.Addresses, wanted)) {
				t.Errorf("the question is %+v", p.Request)
			}
		})
	}
}

func TestQuestionsAreTakenBackWhenNothingIsWanted(t *testing.T) {
	p := vips.Probe(nil, asked(one().Hosts, "cp-2"), noon)
	if !slices.Equal(p.Clear, []string{"cp-2"}) || len(p.Ask) > 0 {
		t.Errorf("clear %v, ask %v", p.Clear, p.Ask)
	}
}

func TestAnotherPairIsAnotherQuestion(t *testing.T) {
	h := answers(asked(one().Hosts, "cp-1", "cp-2"), "cp-1", "q", nil)
	if p := vips.Probe(addrs("fd98::5", "fd98::7"), h, noon.Add(time.Second)); len(p.Ask) != 2 || len(p.Found) != 0 {
		t.Errorf("ask %v, found %v", p.Ask, p.Found)
	}
}

func TestAHostAnswersEachQuestionOnce(t *testing.T) {
	asks := func(id string) string { return state.FormatAnnotation(state.VIPProbe{ID: id, At: noon}) }
	said := func(id string) string { return state.FormatAnnotation(state.VIPAnswer{ID: id}) }
	open, obsolete := vips.Open(map[string]string{
		state.AnnotationVIPProbe + "operator": asks("2"), state.AnnotationVIPAnswer + "operator": said("1"),
		state.AnnotationVIPProbe + "cli-7": asks("1"), state.AnnotationVIPAnswer + "cli-7": said("1"),
		state.AnnotationVIPProbe + "cli-9":  "{",
		state.AnnotationVIPProbe + "cli-8":  asks("1"),
		state.AnnotationVIPAnswer + "cli-6": said("1"),
		state.AnnotationVIPs:                "{}",
	})
	var askers []string
	for _, q := range open {
		askers = append(askers, q.Asker+" "+q.Probe.ID)
	}
	if !slices.Equal(askers, []string{"cli-8 1", "operator 2"}) {
		t.Errorf("open are %v", askers)
	}
	if !slices.Equal(obsolete, []string{state.AnnotationVIPAnswer + "cli-6"}) {
		t.Errorf("obsolete are %v", obsolete)
	}
}

func TestAnAddressIsAskedForOnTheNetworkInWhichItLies(t *testing.T) {
	own := func(iface, prefix string, usable bool) state.HostAddress {
		return state.HostAddress{Interface: iface, Prefix: netip.MustParsePrefix(prefix), Usable: usable}
	}
	addresses := []state.HostAddress{
		own("lo", "127.0.0.1/8", true), own("eth0", "10.98.0.11/24", true), own("eth0", "10.98.0.5/32", true),
		own("cni0", "10.128.0.1/24", true), own("eth1", "fd98::11/64", false), own("eth2", "fd97::11/128", true),
	}
	routes := []state.HostRoute{
		{Destination: netip.MustParsePrefix("::/0"), Gateway: addr("fe80::1"), Interface: "eth2"},
		{Destination: netip.MustParsePrefix("fd97::/64"), Interface: "eth2"},
		{Destination: netip.MustParsePrefix("fd96::/64"), Gateway: addr("fe80::1"), Interface: "eth2"},
		{Destination: netip.MustParsePrefix("10.98.0.128/25"), Interface: "eth9"},
	}
	for text, want := range map[string]string{
		"10.98.0.7": "eth0", "10.98.0.200": "eth9", "10.99.0.1": "", "fd98::5": "", "fd97::5": "eth2", "fd96::5": "",
	} {
		if got := vips.Through(addr(text), addresses, routes); got != want {
			t.Errorf("%s is asked for on %q, want %q", text, got, want)
		}
	}
}

package standing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// ofConfigurations finds what people are told of the machine configurations of
// hosts and pools. Package rollout says what that is.
func (d describer) ofConfigurations() []finding.Finding {
	var hosts []rollout.Host
	for _, h := range d.Hosts {
		if h.Config.Known {
			hosts = append(hosts, h.Config.Value)
		}
	}
	var pools []rollout.PoolState
	if d.Pools.Known {
		pools = d.Pools.Value
	}
	return d.configurations(hosts, pools)
}

// Configurations finds what people are told of the machine configurations of hosts
// and pools, the most severe first.
func Configurations(now time.Time, hosts []rollout.Host, pools []rollout.PoolState) []finding.Finding {
	out := describer{Facts: Facts{Now: now}}.configurations(hosts, pools)
	for i := range out {
		out[i].Page = cmp.Or(out[i].Page, pageOf(out[i].ID))
	}
	slices.SortStableFunc(out, func(a, b finding.Finding) int { return finding.Compare(a.Severity, b.Severity) })
	return out
}

func (d describer) configurations(hosts []rollout.Host, pools []rollout.PoolState) []finding.Finding {
	var out []finding.Finding
	for _, t := range rollout.Troubles(d.Now, hosts, pools) {
		f := configurationWords[t.Kind](t, d)
		f.Subject, f.Severity = t.Host+t.Pool, finding.Note
		if t.Late {
			f.Severity = finding.Warning
		}
		out = append(out, f)
	}
	return out
}

// configurationWords says each kind of trouble.
var configurationWords = map[rollout.TroubleKind]func(t rollout.Trouble, d describer) finding.Finding{
	rollout.IsUnderWay: underWay,
	rollout.IsSilent: func(t rollout.Trouble, d describer) finding.Finding {
		given, variant := "the configuration "+t.Config, t.Config
		if t.Cancel != "" {
			given, variant = "its turn, as somebody wants,", t.Cancel
		}
		return finding.Finding{
			ID: ConfigSilent, Variant: variant, Problem: fmt.Sprintf("%s was given %s %s, and its agent has not answered", t.Host, given, d.ago(t.Since)),
			Meaning:  "All other hosts wait for it. Either holdfast-agent does not run there, or it is of another release.",
			Commands: finding.On(t.Host, "systemctl status holdfast-agent"),
		}
	},
	rollout.NeedsBoot: func(t rollout.Trouble, d describer) finding.Finding {
		return finding.Finding{
			ID: ConfigNeedsBoot, Variant: t.Config, Problem: fmt.Sprintf("%s has waited%s until a person boots it for the configuration %s: it %s", t.Host, d.long(t.Since), t.Config, t.Why),
			Meaning:  "Its pool leaves the boot to a person, and all other hosts wait for it. Look first whether the cluster carries on without it, and drain it.",
			Commands: finding.On(t.Host, "sudo systemctl reboot"),
		}
	},
	rollout.HasFailed: hasFailed,
	rollout.HasRefused: func(t rollout.Trouble, _ describer) finding.Finding {
		return finding.Finding{
			ID: ConfigRefused, Variant: t.Config + ": " + t.Why, Problem: fmt.Sprintf("%s refused the configuration %s: %s", t.Host, t.Config, t.Why),
			Meaning:  fmt.Sprintf("It has changed nothing, has %s still, and no other host is given that one. Correct the MachineConfig.", former(t)),
			Commands: finding.Anywhere("holdfast config show"),
		}
	},
	rollout.WasChanged: func(t rollout.Trouble, _ describer) finding.Finding {
		return finding.Finding{
			ID: ConfigChanged, Variant: t.Why, Problem: fmt.Sprintf("on %s %s", t.Host, t.Why),
			Meaning:  fmt.Sprintf("Holdfast puts nothing right that a person changed, and gives no other host a configuration until then. Write the change into a MachineConfig, or have the files written again with the command. It tells the boot loader the kernel arguments too; these count once the host has booted: holdfast host reboot %s.", t.Host),
			Commands: finding.On(t.Host, "sudo systemctl restart holdfast-configure.service"),
		}
	},
	rollout.UpdatesFailed: func(t rollout.Trouble, _ describer) finding.Finding {
		return finding.Finding{
			ID: UpdatesFailed, Variant: t.Why, Problem: fmt.Sprintf("the updates of %s: %s", t.Host, oneLine(t.Why)),
			Meaning:  "The host takes pods again. What was begun is completed by the next try; the journal of the unit has what the package manager said.",
			Commands: append(finding.On(t.Host, "sudo journalctl -u holdfast-patch"), finding.Anywhere("holdfast host patch "+t.Host)...),
		}
	},
	rollout.WantsBoot: func(t rollout.Trouble, _ describer) finding.Finding {
		return finding.Finding{
			ID: RebootRequired, Variant: t.Why, Problem: fmt.Sprintf("the distribution of %s wants a reboot: %s", t.Host, oneLine(t.Why)),
			Meaning:  "Updates count once the host has booted. It boots in its turn, with its pods on other hosts, once somebody wants that.",
			Commands: finding.Anywhere("holdfast host reboot " + t.Host),
		}
	},
	rollout.WishWaits: func(t rollout.Trouble, d describer) finding.Finding {
		return finding.Finding{
			ID: WishWaits, Variant: t.Cancel, Problem: fmt.Sprintf("%s has waited%s for its turn, as somebody wants: %s", t.Host, d.long(t.Since), oneLine(t.Why)),
			Meaning:  "It goes on by itself once the reason is gone. To take the wish back: " + t.Cancel + ".",
			Commands: finding.Anywhere("holdfast host show " + t.Host),
		}
	},
	rollout.DrainWaits: func(t rollout.Trouble, d describer) finding.Finding {
		return finding.Finding{
			ID: DrainWaits, Variant: t.InTheWay, Problem: fmt.Sprintf("%s has moved its pods away%s, as somebody wants: in the way is %s", t.Host, d.long(t.Since), oneLine(t.InTheWay)),
			Meaning:  "The drain goes on trying. To have the host take pods again: " + t.Cancel + "." + deletesPod,
			Commands: finding.Anywhere("holdfast host show " + t.Host),
		}
	},
	rollout.IsEmpty: func(t rollout.Trouble, d describer) finding.Finding {
		return finding.Finding{
			ID: HostEmpty, Problem: fmt.Sprintf("%s has been wanted empty%s, and is: it gets no pods", t.Host, d.long(t.Since)),
			Meaning:  "The wish stands until somebody takes it back, also over boots. Until then no pod moves there when another host is lost, and fewer other hosts get their turns.",
			Commands: finding.Anywhere(t.Cancel),
		}
	},
	rollout.HasNoPool: func(t rollout.Trouble, _ describer) finding.Finding {
		return finding.Finding{
			ID: ConfigNoPool, Variant: t.Why, Problem: fmt.Sprintf("%s is not configured as pools select it: %s", t.Host, t.Why),
			Meaning:  "Without a pool it keeps what it has, and no change reaches it. Set the labels of its Node, or the nodeSelector of a pool, so that one pool of the site, or worker, selects it.",
			Commands: finding.Anywhere("kubectl get node " + t.Host + " --show-labels"),
		}
	},
	rollout.PoolRefused: func(t rollout.Trouble, _ describer) finding.Finding {
		return finding.Finding{
			ID: PoolRefused, Variant: t.Why, Problem: fmt.Sprintf("the MachineConfigs of the pool %s are refused: %s", t.Pool, oneLine(t.Why)),
			Meaning:  "Its hosts keep what they have.",
			Commands: finding.Anywhere("holdfast config show " + t.Pool),
		}
	},
	rollout.PoolIsPaused: func(t rollout.Trouble, _ describer) finding.Finding {
		return finding.Finding{
			ID: PoolPaused, Problem: fmt.Sprintf("the pool %s is paused, with %s", t.Pool, page.Count(t.Lacking, "host")+" without "+t.Config),
			Meaning:  "Its hosts are given nothing until spec.paused is false again.",
			Commands: finding.Anywhere("kubectl edit machineconfigpool " + t.Pool),
		}
	},
	rollout.PoolThatWaits: func(t rollout.Trouble, _ describer) finding.Finding {
		return finding.Finding{
			ID: PoolWaits, Variant: t.Config, Problem: fmt.Sprintf("the pool %s waits: %s", t.Pool, t.Why),
			Meaning:  "It goes on by itself once the reason is gone.",
			Commands: finding.Anywhere("holdfast config show"),
		}
	},
}

// hasFailed is the finding of a host that went back.
func hasFailed(t rollout.Trouble, _ describer) finding.Finding {
	f := finding.Finding{
		ID: ConfigFailed, Variant: t.Config + ": " + t.Why, Problem: fmt.Sprintf("%s could not get the configuration %s: %s", t.Host, t.Config, t.Why),
		Meaning:  fmt.Sprintf("It has %s again, and no other host is given that one. Correct the MachineConfig: this host is given the next one first.", former(t)),
		Commands: finding.Anywhere("holdfast config show"),
	}
	if t.Unfinished {
		f.Meaning = fmt.Sprintf("It has the files of %s, and was not ready with them: something may run there as the failed one has it, which no other host is given. Correct the MachineConfig: this host is given the next one first, and boots for it. To see whether a boot alone mends it: holdfast host reboot %s.", former(t), t.Host)
	}
	return f
}

// underWay is the finding of a host at work. Where a person has to do something,
// somebody is in the way, or it takes too long.
func underWay(t rollout.Trouble, d describer) finding.Finding {
	f := finding.Finding{
		ID: ConfigUnderWay, Variant: t.Config, Problem: fmt.Sprintf("%s has been on its way to the configuration %s%s: it %s", t.Host, t.Config, d.long(t.Since), t.Why),
		Meaning:  "Other hosts follow when it is ready.",
		Commands: finding.Anywhere("holdfast config show"),
	}
	if t.Cancel != "" {
		f.Variant, f.Problem = t.Cancel, fmt.Sprintf("%s has had its turn, as somebody wants,%s: it %s", t.Host, d.long(t.Since), t.Why)
		f.Commands = finding.Anywhere("holdfast host show " + t.Host)
	}
	if t.InTheWay != "" {
		f.Meaning, f.Page = "In the way: "+t.InTheWay+". "+f.Meaning, "docs/runbook/drain.md"
	}
	switch {
	case t.Late && t.Cancel != "":
		f.Meaning += " It takes longer than it should. To take the wish back: " + t.Cancel + "."
	case t.Late:
		f.Meaning += " It takes longer than it should. To have it back, give it its former configuration again."
	}
	if t.Late && t.InTheWay != "" {
		f.Meaning += deletesPod
	}
	return f
}

// deletesPod is what a person may do beside waiting and taking the wish back. Holdfast deletes
// no pod by itself.
const deletesPod = " To delete a pod that is in the way, whatever its budget says: kubectl delete pod --namespace NAMESPACE POD."

func former(t rollout.Trouble) string {
	if t.Has == "" {
		return "no configuration"
	}
	return t.Has
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

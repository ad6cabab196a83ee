package standing

import (
	"github.com/holdfast/holdfast/internal/decide/encryption"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ofKeys finds what people are told of the rotation of the keys of secrets in etcd. Package
// encryption says what that is.
func (d describer) ofKeys() []finding.Finding {
	wish := d.Encryption.Value
	step, is := d.keys().Unfinished()
	if !is {
		return nil
	}
	f := finding.Finding{
		ID: RotationUnfinished, Subject: encryption.Subject, Variant: step.Why, Severity: finding.Note, Page: pageKeys,
		Problem:  "the keys of secrets in etcd are not settled: " + step.Why,
		Meaning:  "The old key still opens what it opened before. The rotation goes on only while the command runs; type it again to continue.",
		Commands: finding.Anywhere("holdfast encryption status"),
	}
	if len(wish.Keys) > 1 && !wish.At.IsZero() {
		f.Problem = "the rotation of the keys of secrets in etcd has had no step" + d.long(wish.At) + ": " + step.Why
	}
	if step.Kind == encryption.Wait && len(step.Keys) == 1 { // the command has nothing left to do, and would begin another rotation
		f.Meaning = "Their agents give them the keys within two minutes by themselves."
	} else {
		f.Commands = append(f.Commands, finding.Anywhere("holdfast encryption rotate")...)
	}
	if d.Encryption.Known && d.Now.After(wish.Late(true)) {
		f.Severity = finding.Warning
		f.Meaning += " It takes longer than it should."
	}
	return []finding.Finding{f}
}

// keys returns the facts of the decision. Which other work holds the keys as they are stays out:
// the command says that.
func (d describer) keys() encryption.Seen {
	s := encryption.Seen{Wish: d.Encryption.Value.Keys, Rewritten: d.Encryption.Value.Rewritten}
	for _, h := range d.Hosts {
		if !h.ControlPlane {
			continue
		}
		of := encryption.Host{Name: h.Name, Ready: d.takesPart(h), ControlPlanes: h.Authorities.Value.ControlPlanes}
		if _, is := h.Labels.Value[state.LabelControlPlane]; h.Labels.Known && !is { // it says so itself, as root on a worker may
			of.Joins, of.ControlPlanes = true, 0
		}
		if loaded, kept, err := encryption.ParseTold(h.Keys.Value); err == nil {
			of.Loaded, of.Kept = loaded, kept
		}
		s.Hosts = append(s.Hosts, of)
	}
	return s
}

package backup

import (
	"context"

	decide "github.com/holdfast/holdfast/internal/decide/backup"
)

// tell writes the summary to the node if it has changed, or was removed from there.
func (a *Agent) tell(ctx context.Context, v decide.Verdict) error {
	s := a.say(v)
	a.mu.Lock()
	a.summary = s
	a.mu.Unlock()
	now := a.Now()
	before, err := decide.ReadSummary(a.told)
	nodes, _ := a.heard()
	stands := own(nodes, a.Node())
	removed := stands != nil && stands[decide.Annotation] == "" && now.Sub(a.toldAt).Abs() > tellEvery
	if err == nil && s.Same(before) && !removed {
		return nil
	}
	if err == nil && s.Doing != nil && before.Doing != nil && now.Sub(a.toldAt).Abs() < tellEvery {
		return nil // only the phase is another one
	}
	if err == nil && !removed && v.Rule == a.toldBy && s.WaitsAs(before) && now.Sub(a.toldAt).Abs() < waitsEvery {
		return nil
	}
	s.At = now.UTC().Round(0)
	text, err := s.Text()
	if err != nil {
		return err
	}
	api, err := a.Open()
	if err != nil {
		return err
	}
	if err := api.Annotate(ctx, a.Node(), decide.Annotation, text); err != nil {
		return err
	}
	a.told, a.toldBy, a.toldAt = text, v.Rule, now
	return nil
}

// say gathers the summary.
func (a *Agent) say(v decide.Verdict) decide.Summary {
	j, now := a.journal, a.Now()
	out := decide.Summary{
		Kept: decide.Briefs(a.entries), Stays: a.retained(now).Kept, Left: j.Left, Failed: j.Failed, Schedule: a.wish.Schedule.String(), Period: a.period(now), Next: v.Next.UTC(), Keep: a.wish.Keep,
		Targets: a.wish.TargetNames(), Recipients: a.wish.Recipients, Refused: a.refused, Held: a.held, Asked: j.Asked, Answer: j.Answer, Since: j.Since.UTC(), Aimed: j.Aimed,
	}
	if v.Action == decide.Wait {
		out.Waits, out.Due = v.Why, v.Due.UTC()
	}
	if b := j.Begun; b != nil {
		out.Doing = &decide.Doing{ID: b.ID, Since: b.At.UTC(), Reason: b.Reason}
		if said, err := a.State(); err == nil && said.Request == b.ID {
			out.Doing.Phase, out.Doing.PastEtcd = said.Phase.Words(), said.PastEtcd()
		}
	}
	return out
}

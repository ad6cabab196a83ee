package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/clusterversion"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
)

// maxMessage bounds a condition's message, in bytes, so that people can read it.
const maxMessage = 4 << 10

// soaking is what people are told while a site soaks: the record has the time.
const soaking = "all hosts run the new release, and the site shows that it is healthy; the way back is open"

// said returns the words of a step as an object keeps them: without what another look
// says in another way.
func said(next cluster.Step) cluster.Step {
	if next.Phase == cluster.Proving && next.Do != cluster.Pause {
		next.Why = soaking
	}
	return next
}

// takeBack is what a person types who wants no other release any more.
const takeBack = `kubectl patch clusterversion version --type=merge -p '{"spec":{"desiredUpdate":null}}'`

// refused names the wishes that do not count.
func (g *gathered) refused(next cluster.Step, judged gate.Judgement) string {
	var out []string
	if next.Refused != "" {
		out = append(out, next.Refused+". The wish stays, and counts again once this upgrade has ended, unless it is taken back: "+takeBack)
	}
	out = append(out, g.survey.Wish.Mistakes...)
	out = append(out, judged.Refused...)
	if g.survey.Wish.Start && !g.book.record.Started && g.survey.Site.Running == "" {
		out = append(out, "no upgrade begins while no host tells which release the site runs: the way back must lead somewhere")
	}
	return strings.Join(out, "; ")
}

// report writes the status of the ClusterVersion, if it is not that already.
func (r *Reconciler) report(ctx context.Context, g *gathered, next cluster.Step, judged gate.Judgement) error {
	next = said(next)
	now := metav1.NewTime(g.seen.Now.UTC().Truncate(time.Second))
	v := g.version.DeepCopy()
	s := &v.Status
	goal := g.survey.Goal()
	if release := g.survey.Releases[goal]; goal != "" {
		wanted := clusterversion.Release{Image: goal, Version: versionOf(release), Verified: release.Verified}
		if g.book.record.Started && !g.book.record.Returning {
			wanted.Risks = judged.Risks
		}
		s.History = clusterversion.History(s.History, wanted, g.survey.Arrived(), now)
		s.Desired = configv1.Release{Image: goal, Version: cmp.Or(wanted.Version, s.History[0].Version)}
		s.VersionHash = strings.TrimPrefix(goal, "sha256:")
	}
	s.ObservedGeneration = v.Generation
	s.AvailableUpdates = clusterversion.Updates(g.survey.Available())
	s.Conditions = clusterversion.Conditions(s.Conditions, next, g.survey.Upgradeable(), metav1.ConditionTrue, now)
	for i, c := range s.Conditions {
		s.Conditions[i].Message = short(c.Message)
	}
	if equality.Semantic.DeepEqual(g.version.Status, *s) {
		return nil
	}
	if err := r.Client.Status().Update(ctx, v); err != nil {
		return fmt.Errorf("write the status of ClusterVersion %s: %w", annotation.VersionName, err)
	}
	return nil
}

// versionOf returns the version of a release; empty if it is not known.
func versionOf(r gate.Release) string {
	if r.Digest == "" {
		return ""
	}
	return r.Version.String()
}

func short(text string) string {
	if len(text) > maxMessage {
		return text[:maxMessage] + " ..."
	}
	return text
}

// stopped says that nothing is done, since the record cannot be read. What Prometheus hears of the
// rest stays as it was: nobody knows better.
func (r *Reconciler) stopped(ctx context.Context, v *configv1.ClusterVersion, why error) error {
	pausedMetric.Set(1)
	if text := why.Error(); r.told != text {
		r.told = text
		r.event(ctx, v, corev1.EventTypeWarning, "UpgradeRecordUnreadable", text)
	}
	now := metav1.NewTime(r.Now().UTC().Truncate(time.Second))
	next := cluster.Step{Phase: cluster.Hosts, Do: cluster.Pause, Why: why.Error() + ". Nothing is begun until it can be read"}
	out := v.DeepCopy()
	out.Status.ObservedGeneration = v.Generation
	out.Status.Conditions = clusterversion.Conditions(v.Status.Conditions, next, gate.Condition{Status: metav1.ConditionUnknown, Reason: "RecordUnreadable", Message: next.Why}, metav1.ConditionTrue, now)
	if equality.Semantic.DeepEqual(v.Status, out.Status) {
		return nil
	}
	if err := r.Client.Status().Update(ctx, out); err != nil {
		return fmt.Errorf("write the status of ClusterVersion %s: %w", annotation.VersionName, err)
	}
	return nil
}

package guards

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// verb is the way in which an object is changed.
type verb string

const (
	creates       verb = "create"
	applies       verb = "server-side apply"
	updates       verb = "update"
	patches       verb = "patch"
	patchesStatus verb = "patch of the status"
	appliesStatus verb = "server-side apply of the status"
	deletes       verb = "delete"
	deletesAll    verb = "deletecollection"
)

// attempt is one request, and the text of its refusal, or none if it is let
// through.
type attempt struct {
	name string
	verb verb
	// object is an object. One that is in the cluster is read by its name. change
	// is the content of a patch.
	object, change string
	refused        string
}

// do sends the request. Nothing changes, because admission judges a dry run like
// any other request.
func (s *site) do(a attempt) error {
	ctx := s.t.Context()
	o := parse(s.t, a.object)
	switch a.verb {
	case creates:
		return s.admin.Create(ctx, o, client.DryRunAll)
	case applies:
		return s.admin.Patch(ctx, o, client.Apply, client.FieldOwner("somebody"), client.ForceOwnership, client.DryRunAll) //nolint:staticcheck // a text
	case appliesStatus:
		return s.admin.Status().Patch(ctx, o, client.Apply, client.FieldOwner("somebody"), client.ForceOwnership, client.DryRunAll) //nolint:staticcheck // a text
	case updates:
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(o.GroupVersionKind())
		if err := s.admin.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
			return err
		}
		o.SetResourceVersion(live.GetResourceVersion())
		return s.admin.Update(ctx, o, client.DryRunAll)
	case patches:
		return s.admin.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(a.change)), client.DryRunAll)
	case patchesStatus:
		return s.admin.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(a.change)), client.DryRunAll)
	case deletes:
		return s.admin.Delete(ctx, o, client.DryRunAll)
	case deletesAll:
		selected := client.MatchingFields{"metadata.name": o.GetName()}
		return s.admin.DeleteAllOf(ctx, o, client.InNamespace(o.GetNamespace()), selected, client.DryRunAll)
	}
	return fmt.Errorf("no verb %q", a.verb)
}

// TestTheGuardsOfTwoControlPlanes plays the whole matrix against the API server
// of the release, with nothing of ours running. First there are no guards, as
// with one or three control planes, and everything must be let through; then
// there are.
func TestTheGuardsOfTwoControlPlanes(t *testing.T) {
	for name, text := range map[string]string{"one": sitetest.OneNone, "three": sitetest.ThreeV6} {
		if _, guards := filesOf(t, text); len(guards) > 0 {
			t.Errorf("%s control planes have guards: %s", name, guards[0].Path)
		}
	}
	s := newSite(t)
	s.install()
	s.clearGuards()
	for _, text := range before() {
		s.make(text)
	}
	t.Run("without guards", func(t *testing.T) {
		s := &site{t, s.api, s.admin}
		for _, a := range matrix() {
			var err error // the API server forgets a policy only after a moment, as it learns of one
			s.until(func() bool { err = s.do(a); return err == nil }, func() string { return fmt.Sprintf("%s, %s: %v", a.verb, a.name, err) })
		}
	})
	s.guard()
	t.Cleanup(s.clearGuards)
	s.untilGuarded()
	t.Run("guarded", func(t *testing.T) {
		s := &site{t, s.api, s.admin}
		for _, a := range matrix() {
			s.judged(a, s.do(a))
		}
	})
	t.Run("TheAPIServerFindsNoMistakeInAnExpression", func(t *testing.T) { (&site{t, s.api, s.admin}).typesAreChecked() })
}

func (s *site) judged(a attempt, err error) {
	s.t.Helper()
	switch {
	case a.refused == "" && err != nil:
		s.t.Errorf("%s, %s: refused: %v", a.verb, a.name, err)
	case a.refused != "" && err == nil:
		s.t.Errorf("%s, %s: let through", a.verb, a.name)
	case a.refused != "" && !strings.Contains(err.Error(), a.refused):
		s.t.Errorf("%s, %s: refused, without %q: %v", a.verb, a.name, a.refused, err)
	case a.refused != "" && !strings.Contains(err.Error(), "docs/runbook/guards.md"):
		s.t.Errorf("%s, %s: does not say where to read on: %v", a.verb, a.name, err)
	}
}

// make makes an object with its status. It also starts the deletion of an object
// with a finalizer.
func (s *site) make(text string) {
	s.t.Helper()
	o := parse(s.t, text)
	status, hasStatus := o.Object["status"]
	must(s.t, s.admin.Patch(s.t.Context(), o, client.Apply, client.FieldOwner("before"), client.ForceOwnership)) //nolint:staticcheck // a text
	if hasStatus {
		o.Object["status"] = status
		must(s.t, s.admin.Status().Update(s.t.Context(), o))
	}
	if len(o.GetFinalizers()) > 0 {
		must(s.t, s.admin.Delete(s.t.Context(), o))
	}
}

// untilGuarded waits until each guard refuses something: the API server learns of
// a new policy only after a moment.
func (s *site) untilGuarded() {
	s.t.Helper()
	policies, bindings := s.ours()
	if len(policies) == 0 || len(policies) != len(bindings) {
		s.t.Fatalf("%d policies, %d bindings", len(policies), len(bindings))
	}
	seen := map[string]bool{}
	for _, a := range matrix() {
		if a.refused == "" {
			continue
		}
		s.until(func() bool {
			err := s.do(a)
			for _, p := range policies {
				if err != nil && strings.Contains(err.Error(), "'"+p.Name+"'") {
					seen[p.Name] = true
				}
			}
			return err != nil
		}, func() string { return fmt.Sprintf("%s, %s: let through", a.verb, a.name) })
	}
	for _, p := range policies {
		if !seen[p.Name] {
			s.t.Errorf("no attempt was refused by %s", p.Name)
		}
	}
}

// typesAreChecked waits until the API's own controller has compared the
// expressions with the existing kinds.
func (s *site) typesAreChecked() {
	s.t.Helper()
	policies, _ := s.ours()
	for i := range policies {
		p := &policies[i]
		s.until(func() bool {
			must(s.t, s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(p), p))
			return p.Status.ObservedGeneration == p.Generation && p.Status.TypeChecking != nil
		}, func() string { return "the types of " + p.Name + " were not checked" })
		for _, w := range p.Status.TypeChecking.ExpressionWarnings {
			s.t.Errorf("%s, %s: %s", p.Name, w.FieldRef, w.Warning)
		}
	}
}

// clearGuards deletes what another test left.
func (s *site) clearGuards() {
	s.t.Helper()
	policies, bindings := s.ours()
	ctx := context.WithoutCancel(s.t.Context())
	for i := range bindings {
		must(s.t, client.IgnoreNotFound(s.admin.Delete(ctx, &bindings[i])))
	}
	for i := range policies {
		must(s.t, client.IgnoreNotFound(s.admin.Delete(ctx, &policies[i])))
	}
}

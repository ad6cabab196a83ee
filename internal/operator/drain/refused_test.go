package drain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	decide "github.com/holdfast/holdfast/internal/decide/drain"
)

// evictionsOf has each eviction of one pod end with an error.
func (s *site) evictionsOf(name string, ends error) {
	s.r.Client = interceptor.NewClient(s.own, interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, of client.Object, opts ...client.SubResourceCreateOption) error {
			if _, evicts := of.(*policyv1.Eviction); evicts && o.GetName() == name {
				return ends
			}
			return c.SubResource(sub).Create(ctx, o, of, opts...)
		},
	})
}

// TestARefusalWithoutAReasonIsNamedAndTheOtherPodsGo: the API server fills in no reason where a
// webhook refuses without one, whatever its code is.
func TestARefusalWithoutAReasonIsNamedAndTheOtherPodsGo(t *testing.T) {
	for _, code := range []int32{http.StatusInternalServerError, http.StatusNotFound, http.StatusConflict} {
		s := newSite(t)
		s.runs("a-db", "StatefulSet")
		s.runs("web", "ReplicaSet")
		s.evictionsOf("a-db", &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: "no"}})
		s.wish(drains)
		s.looks(enough)
		if s.names() != "a-db" {
			t.Errorf("code %d: there are %s", code, s.names())
		}
		s.is(fmt.Sprintf("refused with code %d", code), true, map[string]string{decide.CordonedBy: drains, decide.Waits: "default/a-db (of StatefulSet of-a-db): no"})
	}
}

// TestAPodWhoseNamespaceIsBeingDeletedIsSaidToGoWithIt: a real API server refuses its eviction with a
// sentence about new content, which nobody understands.
func TestAPodWhoseNamespaceIsBeingDeletedIsSaidToGoWithIt(t *testing.T) {
	s := newSite(t)
	s.runs("a-db", "StatefulSet")
	s.runs("web", "ReplicaSet")
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a-db", errors.New("unable to create new content in namespace default because it is being terminated"))
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: "namespace default is being terminated", Field: "metadata.namespace",
	})
	s.evictionsOf("a-db", refused)
	s.wish(drains)
	s.looks(enough)
	if s.names() != "a-db" {
		t.Errorf("there are %s", s.names())
	}
	s.is("its namespace is being deleted", true, map[string]string{
		decide.CordonedBy: drains, decide.Waits: "default/a-db (of StatefulSet of-a-db): its namespace is being deleted, and the API evicts no pod of it: it goes with the namespace",
	})
}

// TestNoAnswerOfTheAPIIsNoRefusal: the look ends, and the next one asks again.
func TestNoAnswerOfTheAPIIsNoRefusal(t *testing.T) {
	s := newSite(t)
	s.runs("web", "ReplicaSet")
	cut := errors.New("connection refused")
	s.evictionsOf("web", cut)
	s.wish(drains)
	var err error
	for range enough {
		if _, err = s.look(); err != nil {
			break
		}
	}
	if !errors.Is(err, cut) {
		t.Errorf("the looks end with %v", err)
	}
	s.is("no answer", true, map[string]string{decide.CordonedBy: drains})
}

// TestALookEndsSoonWhereNoEvictionIsAnswered: the host may be wanted back meanwhile. Each pod is
// asked all the same, since another webhook may judge it.
func TestALookEndsSoonWhereNoEvictionIsAnswered(t *testing.T) {
	const pods = 10
	s := newSite(t)
	for i := range pods {
		s.runs(fmt.Sprintf("web-%d", i), "ReplicaSet")
	}
	asked, took := 0, time.Duration(0)
	s.r.Client = interceptor.NewClient(s.own, interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, _ client.Client, _ string, _, _ client.Object, _ ...client.SubResourceCreateOption) error {
			until, _ := ctx.Deadline()
			asked, took = asked+1, took+time.Until(until)
			return context.DeadlineExceeded
		},
	})
	s.wish(drains)
	for range enough {
		if must(t, errOf(s.look())); asked > 0 {
			break
		}
	}
	if most := evictSilent*evictLimit + (pods-evictSilent)*evictShort; asked != pods || took > most {
		t.Errorf("it asks for %d of %d pods and waits for %s, which is more than %s", asked, pods, took, most)
	}
	const words = "the API did not answer within "
	if waits := s.node().Annotations[decide.Waits]; !strings.Contains(waits, "default/web-0 (of ReplicaSet of-web-0): "+words+"30s; ") || !strings.Contains(waits, words+"2s; 5 more") {
		t.Errorf("in the way are %q", waits)
	}
}

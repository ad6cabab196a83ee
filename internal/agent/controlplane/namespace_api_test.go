package controlplane

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// docs/facts/loss.md#hard-cases-of-loss, L36: somebody deletes the namespace in which the
// operator runs. The agents of control planes make it again with all that an installation puts
// there but secrets, and touch nothing else.
func TestL36TheNamespaceOfTheOperatorComesBackWithTheOperator(t *testing.T) {
	api := apitest.Need(t, server)
	set, err := kubernetes.NewForConfig(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	a, _, _ := identified(t, "cp-1")
	client, err := a.admin()
	if err != nil {
		t.Fatal(err)
	}
	own, err := ownObjects(a.Site)
	if err != nil {
		t.Fatal(err)
	}
	remake := func() error { return a.remake(t.Context(), client, own) }
	until(t, "the objects of an installation", remake)
	const name = "openshift-etcd"
	uid := func(namespace string) string {
		n, err := set.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return string(n.UID)
	}
	config := func() string {
		c, err := set.CoreV1().ConfigMaps("kube-system").Get(t.Context(), siteConfigName, metav1.GetOptions{})
		return fmt.Sprint(c.UID, c.ResourceVersion, err)
	}
	beforeName, beforeConfig := uid(name), config()

	if err := set.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// While the namespace is being deleted each round fails or changes nothing.
	until(t, "the namespace is made again", func() error {
		err := remake()
		if now := uid(name); now == beforeName || err != nil {
			return errors.Join(err, fmt.Errorf("the namespace is %s", now))
		}
		return nil
	})
	for _, get := range []func() error{
		func() error {
			_, err := set.AppsV1().Deployments(name).Get(t.Context(), "holdfast-operator", metav1.GetOptions{})
			return err
		},
		func() error {
			_, err := set.CoreV1().ServiceAccounts(name).Get(t.Context(), "holdfast-operator", metav1.GetOptions{})
			return err
		},
	} {
		if err := get(); err != nil {
			t.Error(err)
		}
	}
	if now := config(); now != beforeConfig {
		t.Errorf("what lies elsewhere was written: %s, before %s", now, beforeConfig)
	}
	if secrets, err := set.CoreV1().Secrets(name).List(t.Context(), metav1.ListOptions{}); err != nil || len(secrets.Items) > 0 {
		t.Errorf("passwords of BMCs come from a person: %v, %v", secrets.Items, err)
	}
	if err := remake(); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Errorf("once more: %v", err)
	}
}

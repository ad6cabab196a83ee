package kube

import (
	"errors"

	configv1 "github.com/openshift/api/config/v1"
	etcdv1 "github.com/openshift/api/etcd/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// NewScheme returns the kinds that Holdfast's programs read and write as Go
// types, and those that a program adds.
func NewScheme(add ...func(*runtime.Scheme) error) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	errs := []error{
		admissionv1.AddToScheme(scheme), appsv1.AddToScheme(scheme), batchv1.AddToScheme(scheme), corev1.AddToScheme(scheme),
		networkingv1.AddToScheme(scheme), policyv1.AddToScheme(scheme),
		configv1.Install(scheme), etcdv1.Install(scheme), operatorv1.Install(scheme),
	}
	for _, more := range add {
		errs = append(errs, more(scheme))
	}
	return scheme, errors.Join(errs...)
}

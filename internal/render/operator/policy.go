package operator

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The fields of etcd's object which say that kubelet no longer runs etcd.
const (
	UseExternal = "useExternalEtcdSupport"
	MayRemove   = "useUnsupportedUnsafeEtcdContainerRemoval"
)

func admission(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: kind}
}

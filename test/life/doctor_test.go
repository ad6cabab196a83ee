package life_test

import "testing"

// TestDoctorFindsNothingOnALabThatNobodyChanged: neither a warning nor anything that it could not
// check, once a person has done what the installation asks for: to prove that each BMC cuts power.
func TestDoctorFindsNothingOnALabThatNobodyChanged(t *testing.T) {
	s := open(t)
	if err := s.Doctor(t.Context(), t.Logf, *life); err != nil {
		t.Error(err)
	}
}

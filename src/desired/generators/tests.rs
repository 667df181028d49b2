//! Generators on their own: tables A.5 and A.16 of the ApplicationSet specification.

declare ptr @PyObject_Str(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i32 @snprintf(ptr, i64, ptr, ...)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
@_Py_NoneStruct = external global i8
@box_type = external global i8
@cell = external global i8
@counter = internal global [24 x i8] c"\00\00\00\00\00\00\00\00\FD\FF\FF\FF\00\00\00\00\00\00\00\00\00\00\00\00", align 8
@table = internal global [192 x i8] zeroinitializer, align 8
@tickets = internal global [192 x i8] zeroinitializer, align 64

define i64 @arithmetic(i64 %a, i64 %b) {
entry:
  %t.0 = add i64 %a, %b
  %t.1 = sub i64 %a, %b
  %t.2 = mul i64 %t.0, %t.1
  %t.3 = and i64 %a, 12
  %t.4 = or i64 %t.3, %b
  %t.5 = shl i64 %a, 2
  %t.6 = add i64 %t.4, %t.5
  %t.7 = ashr i64 %b, 1
  %t.8 = sub i64 %t.6, %t.7
  %t.9 = xor i64 %a, -1
  %t.10 = add i64 %t.8, %t.9
  %t.11 = sub i64 0, %b
  %t.12 = sub i64 %t.10, %t.11
  %t.13 = xor i64 %t.2, %t.12
  ret i64 %t.13
}

define i64 @divided(i64 %a, i64 %b) {
entry:
  %t.0 = srem i64 %a, %b
  %t.1 = xor i64 %t.0, %b
  %t.2 = icmp slt i64 %t.1, 0
  %t.3 = icmp ne i64 %t.0, 0
  %t.4 = and i1 %t.2, %t.3
  %t.5 = sdiv i64 %a, %b
  %t.6 = sext i1 %t.4 to i64
  %t.7 = add i64 %t.5, %t.6
  %t.8 = mul i64 %t.7, 1000
  %t.9 = srem i64 %a, %b
  %t.10 = xor i64 %t.9, %b
  %t.11 = icmp slt i64 %t.10, 0
  %t.12 = icmp ne i64 %t.9, 0
  %t.13 = and i1 %t.11, %t.12
  %t.14 = add i64 %t.9, %b
  %t.15 = select i1 %t.13, i64 %t.14, i64 %t.9
  %t.16 = add i64 %t.8, %t.15
  ret i64 %t.16
}

define i64 @unsigned(i64 %a, i64 %b) {
entry:
  %t.3 = icmp ult i64 %a, %b
  br i1 %t.3, label %then.0, label %on.2
then.0:
  %t.4 = lshr i64 %a, 4
  ret i64 %t.4
on.2:
  %t.5 = mul i64 %a, %b
  ret i64 %t.5
}

define i64 @least(i64 %a, i64 %b) {
entry:
  %t.0 = call i64 @llvm.smin.i64(i64 %a, i64 %b)
  %t.1 = mul i64 %t.0, 3
  %t.2 = call i64 @llvm.smax.i64(i64 %a, i64 10)
  %t.3 = add i64 %t.1, %t.2
  ret i64 %t.3
}

define i64 @compared(i64 %a, i64 %b) {
entry:
  %t.0 = icmp slt i64 %a, %b
  %t.1 = icmp eq i64 %a, %b
  %t.2 = xor i1 %t.0, %t.1
  %t.3 = icmp sge i64 %a, 10
  %t.4 = icmp ne i64 %b, 3
  %t.5 = and i1 %t.3, %t.4
  %t.6 = or i1 %t.2, %t.5
  %t.7 = zext i1 %t.6 to i64
  %t.8 = xor i1 %t.6, true
  %t.9 = zext i1 %t.8 to i64
  %t.10 = mul i64 %t.9, 2
  %t.11 = add i64 %t.7, %t.10
  %t.12 = icmp sgt i64 %a, %b
  %t.13 = icmp eq i1 %t.6, %t.12
  %t.14 = zext i1 %t.13 to i64
  %t.15 = mul i64 %t.14, 4
  %t.16 = add i64 %t.11, %t.15
  ret i64 %t.16
}

define zeroext i1 @short_circuit(i64 %a, i64 %b, i64 %c) {
entry:
  %t.2 = icmp slt i64 %a, %b
  br i1 %t.2, label %and.1, label %both.0
and.1:
  %t.5 = icmp slt i64 %b, %c
  br i1 %t.5, label %and.3, label %or.4
or.4:
  %t.6 = icmp sgt i64 %a, %c
  br i1 %t.6, label %both.0, label %and.3
and.3:
  %t.7 = call i64 @llvm.smax.i64(i64 %a, i64 1)
  %t.8 = srem i64 %c, %t.7
  %t.9 = xor i64 %t.8, %t.7
  %t.10 = icmp slt i64 %t.9, 0
  %t.11 = icmp ne i64 %t.8, 0
  %t.12 = and i1 %t.10, %t.11
  %t.13 = sdiv i64 %c, %t.7
  %t.14 = sext i1 %t.12 to i64
  %t.15 = add i64 %t.13, %t.14
  %t.16 = icmp sgt i64 %t.15, 1
  br label %both.0
both.0:
  %t.17 = phi i1 [ false, %entry ], [ false, %or.4 ], [ %t.16, %and.3 ]
  ret i1 %t.17
}

define i64 @truth(i64 %a, i64 %b) {
entry:
  %t.4 = and i64 %a, 3
  %t.5 = icmp ne i64 %t.4, 0
  br i1 %t.5, label %and.3, label %on.2
and.3:
  %t.6 = icmp ne i64 %b, 0
  br i1 %t.6, label %on.2, label %then.0
then.0:
  ret i64 1
on.2:
  %t.10 = icmp ne i64 %a, 0
  br i1 %t.10, label %then.7, label %else.8
then.7:
  br label %chosen.9
else.8:
  br label %chosen.9
chosen.9:
  %if.11 = phi i64 [ 2, %then.7 ], [ 3, %else.8 ]
  ret i64 %if.11
}

define i64 @named(i64 %a) {
entry:
  %t.3 = mul i64 %a, 2
  %t.4 = icmp sgt i64 %t.3, 10
  br i1 %t.4, label %then.0, label %on.2
then.0:
  ret i64 %t.3
on.2:
  ret i64 %a
}

define i64 @real(double %number) {
entry:
  %t.0 = bitcast double %number to i64
  ret i64 %t.0
}

define i64 @branches(i64 %a) {
entry:
  %t.3 = icmp slt i64 %a, 0
  br i1 %t.3, label %then.0, label %else.1
then.0:
  br label %on.2
else.1:
  %t.7 = icmp eq i64 %a, 0
  br i1 %t.7, label %then.4, label %else.5
then.4:
  ret i64 7
else.5:
  %t.8 = add i64 0, %a
  br label %on.6
on.6:
  br label %on.2
on.2:
  %result.9 = phi i64 [ 1, %then.0 ], [ %t.8, %on.6 ]
  ret i64 %result.9
}

define i64 @euclid(i64 %a, i64 %b) {
entry:
  br label %more.0
more.0:
  %a.3 = phi i64 [ %a, %entry ], [ %b.4, %body.1 ]
  %b.4 = phi i64 [ %b, %entry ], [ %t.12, %body.1 ]
  %t.5 = icmp ne i64 %b.4, 0
  br i1 %t.5, label %body.1, label %done.2
body.1:
  %t.6 = srem i64 %a.3, %b.4
  %t.7 = xor i64 %t.6, %b.4
  %t.8 = icmp slt i64 %t.7, 0
  %t.9 = icmp ne i64 %t.6, 0
  %t.10 = and i1 %t.8, %t.9
  %t.11 = add i64 %t.6, %b.4
  %t.12 = select i1 %t.10, i64 %t.11, i64 %t.6
  br label %more.0
done.2:
  ret i64 %a.3
}

define i64 @loops(i64 %n, i64 %skip) {
entry:
  br label %more.0
more.0:
  %i.5 = phi i64 [ 0, %entry ], [ %i.next.6, %next.2 ]
  %total.4 = phi i64 [ 0, %entry ], [ %total.30, %next.2 ]
  %t.7 = icmp slt i64 %i.5, %n
  br i1 %t.7, label %body.1, label %done.3
body.1:
  %t.11 = icmp eq i64 %i.5, %skip
  br i1 %t.11, label %then.8, label %on.10
then.8:
  br label %next.2
on.10:
  br label %more.12
more.12:
  %j.17 = phi i64 [ %i.5, %on.10 ], [ %j.next.18, %next.14 ]
  %total.16 = phi i64 [ %total.4, %on.10 ], [ %t.25, %next.14 ]
  %t.19 = icmp sgt i64 %j.17, 0
  br i1 %t.19, label %body.13, label %done.15
body.13:
  %t.23 = mul i64 %j.17, %i.5
  %t.24 = icmp sgt i64 %t.23, 50
  br i1 %t.24, label %then.20, label %on.22
then.20:
  br label %done.15
on.22:
  %t.25 = add i64 %total.16, %j.17
  br label %next.14
next.14:
  %j.next.18 = add i64 %j.17, -2
  br label %more.12
done.15:
  %t.29 = icmp sgt i64 %total.16, 400
  br i1 %t.29, label %then.26, label %on.28
then.26:
  br label %done.3
on.28:
  br label %next.2
next.2:
  %total.30 = phi i64 [ %total.4, %then.8 ], [ %total.16, %on.28 ]
  %i.next.6 = add i64 %i.5, 1
  br label %more.0
done.3:
  %total.31 = phi i64 [ %total.4, %more.0 ], [ %total.16, %then.26 ]
  ret i64 %total.31
}

define i64 @endless(i64 %n) {
entry:
  br label %more.0
more.0:
  %count.3 = phi i64 [ 0, %entry ], [ %t.33, %chosen.13 ]
  %n.4 = phi i64 [ %n, %entry ], [ %if.32, %chosen.13 ]
  br label %body.1
body.1:
  %t.9 = icmp eq i64 %n.4, 1
  br i1 %t.9, label %then.5, label %or.8
or.8:
  %t.10 = icmp eq i64 %count.3, 99
  br i1 %t.10, label %then.5, label %on.7
then.5:
  ret i64 %count.3
on.7:
  %t.14 = srem i64 %n.4, 2
  %t.15 = xor i64 %t.14, 2
  %t.16 = icmp slt i64 %t.15, 0
  %t.17 = icmp ne i64 %t.14, 0
  %t.18 = and i1 %t.16, %t.17
  %t.19 = add i64 %t.14, 2
  %t.20 = select i1 %t.18, i64 %t.19, i64 %t.14
  %t.21 = icmp eq i64 %t.20, 0
  br i1 %t.21, label %then.11, label %else.12
then.11:
  %t.22 = srem i64 %n.4, 2
  %t.23 = xor i64 %t.22, 2
  %t.24 = icmp slt i64 %t.23, 0
  %t.25 = icmp ne i64 %t.22, 0
  %t.26 = and i1 %t.24, %t.25
  %t.27 = sdiv i64 %n.4, 2
  %t.28 = sext i1 %t.26 to i64
  %t.29 = add i64 %t.27, %t.28
  br label %chosen.13
else.12:
  %t.30 = mul i64 3, %n.4
  %t.31 = add i64 %t.30, 1
  br label %chosen.13
chosen.13:
  %if.32 = phi i64 [ %t.29, %then.11 ], [ %t.31, %else.12 ]
  %t.33 = add i64 %count.3, 1
  br label %more.0
}

define i64 @counted(i64 %n) {
entry:
  %count.0 = load i64, ptr @counter
  %t.1 = add i64 %count.0, %n
  store i64 %t.1, ptr @counter
  %count.2 = load i64, ptr @counter
  %t.3 = mul i64 %count.2, 10
  %t.4 = getelementptr i8, ptr @counter, i64 8
  %limit.5 = load i32, ptr %t.4
  %t.6 = sext i32 %limit.5 to i64
  %t.7 = add i64 %t.3, %t.6
  ret i64 %t.7
}

define i64 @at_one(i64 %n) {
entry:
  %t.0 = getelementptr [48 x i8], ptr @table, i64 1
  %first.1 = load i64, ptr %t.0
  %t.2 = add i64 %first.1, %n
  store i64 %t.2, ptr %t.0
  %t.3 = getelementptr [48 x i8], ptr @table, i64 1
  %first.4 = load i64, ptr %t.3
  %t.5 = add i64 %first.4, 4
  ret i64 %t.5
}

define i64 @at_three(i64 %n) {
entry:
  %t.0 = getelementptr [48 x i8], ptr @table, i64 3
  %first.1 = load i64, ptr %t.0
  %t.2 = add i64 %first.1, %n
  store i64 %t.2, ptr %t.0
  %t.3 = getelementptr [48 x i8], ptr @table, i64 3
  %first.4 = load i64, ptr %t.3
  %t.5 = add i64 %first.4, 16
  ret i64 %t.5
}

define i64 @words_of(ptr %things, i64 %n) {
entry:
  %t.0 = alloca [12 x [8 x i8]], align 8
  %t.1 = mul i64 %n, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %t.0, ptr %things, i64 %t.1, i1 false)
  store ptr null, ptr %t.0
  br label %more.2
more.2:
  %i.7 = phi i64 [ 0, %entry ], [ %i.next.8, %next.4 ]
  %missing.6 = phi i64 [ 0, %entry ], [ %t.14, %next.4 ]
  %t.9 = icmp slt i64 %i.7, %n
  br i1 %t.9, label %body.3, label %done.5
body.3:
  %t.10 = getelementptr i64, ptr %t.0, i64 %i.7
  %element.11 = load ptr, ptr %t.10
  %t.12 = icmp eq ptr %element.11, null
  %t.13 = zext i1 %t.12 to i64
  %t.14 = add i64 %missing.6, %t.13
  br label %next.4
next.4:
  %i.next.8 = add i64 %i.7, 1
  br label %more.2
done.5:
  ret i64 %missing.6
}

define internal i64 @rest_of(ptr %pair) alwaysinline {
entry:
  %first.0 = load i64, ptr %pair
  %t.1 = getelementptr i8, ptr %pair, i64 8
  %small.2 = load i32, ptr %t.1
  %t.3 = sext i32 %small.2 to i64
  %t.4 = add i64 %first.0, %t.3
  ret i64 %t.4
}

define i64 @fields(ptr %pair, i64 %n) {
entry:
  %first.0 = load i64, ptr %pair
  %t.1 = add i64 %first.0, %n
  store i64 %t.1, ptr %pair
  %t.2 = mul i64 %n, 2
  %t.3 = getelementptr i8, ptr %pair, i64 8
  %t.4 = trunc i64 %t.2 to i32
  store i32 %t.4, ptr %t.3
  %t.5 = and i64 %n, 63
  %t.6 = getelementptr i8, ptr %pair, i64 13
  %t.7 = trunc i64 %t.5 to i8
  store i8 %t.7, ptr %t.6
  %t.8 = getelementptr i8, ptr %pair, i64 12
  %t.9 = load i8, ptr %t.8
  %flag.10 = icmp ne i8 %t.9, 0
  %t.11 = xor i1 %flag.10, true
  %t.12 = getelementptr i8, ptr %pair, i64 12
  %t.13 = zext i1 %t.11 to i8
  store i8 %t.13, ptr %t.12
  %t.14 = getelementptr i8, ptr %pair, i64 16
  %t.15 = getelementptr i64, ptr %t.14, i64 2
  %element.16 = load i64, ptr %t.15
  %t.17 = add i64 %element.16, 5
  %t.18 = getelementptr i8, ptr %pair, i64 16
  %t.19 = getelementptr i64, ptr %t.18, i64 1
  store i64 %t.17, ptr %t.19
  %rest_of.20 = call i64 @rest_of(ptr %pair)
  %t.21 = getelementptr i8, ptr %pair, i64 13
  %byte.22 = load i8, ptr %t.21
  %t.23 = sext i8 %byte.22 to i64
  %t.24 = add i64 %rest_of.20, %t.23
  %t.28 = getelementptr i8, ptr %pair, i64 12
  %t.29 = load i8, ptr %t.28
  %flag.30 = icmp ne i8 %t.29, 0
  br i1 %flag.30, label %then.25, label %else.26
then.25:
  %t.31 = getelementptr i8, ptr %pair, i64 16
  %t.32 = getelementptr i64, ptr %t.31, i64 1
  %element.33 = load i64, ptr %t.32
  br label %chosen.27
else.26:
  br label %chosen.27
chosen.27:
  %if.34 = phi i64 [ %element.33, %then.25 ], [ 0, %else.26 ]
  %t.35 = add i64 %t.24, %if.34
  ret i64 %t.35
}

define i64 @chained(ptr %pair) {
entry:
  br label %more.0
more.0:
  %one.3 = phi ptr [ %pair, %entry ], [ %next.11, %body.1 ]
  %total.4 = phi i64 [ 0, %entry ], [ %t.9, %body.1 ]
  %t.5 = getelementptr i8, ptr %one.3, i64 40
  %next.6 = load ptr, ptr %t.5
  %t.7 = icmp ne ptr %next.6, null
  br i1 %t.7, label %body.1, label %done.2
body.1:
  %first.8 = load i64, ptr %one.3
  %t.9 = add i64 %total.4, %first.8
  %t.10 = getelementptr i8, ptr %one.3, i64 40
  %next.11 = load ptr, ptr %t.10
  br label %more.0
done.2:
  ret i64 %total.4
}

define i64 @second(ptr %words, i64 %n) {
entry:
  %t.0 = getelementptr i64, ptr %words, i64 1
  %element.1 = load i64, ptr %t.0
  %t.2 = add i64 %element.1, %n
  store i64 %t.2, ptr %t.0
  %t.3 = getelementptr i64, ptr %words, i64 1
  %element.4 = load i64, ptr %t.3
  ret i64 %element.4
}

define i64 @scratch(i64 %n) {
entry:
  %t.0 = alloca [10 x [8 x i8]], align 8
  %t.10 = alloca [48 x i8], align 8
  br label %more.1
more.1:
  %i.5 = phi i64 [ 0, %entry ], [ %i.next.6, %next.3 ]
  %t.7 = icmp slt i64 %i.5, 10
  br i1 %t.7, label %body.2, label %done.4
body.2:
  %t.8 = mul i64 %i.5, %n
  %t.9 = getelementptr i64, ptr %t.0, i64 %i.5
  store i64 %t.8, ptr %t.9
  br label %next.3
next.3:
  %i.next.6 = add i64 %i.5, 1
  br label %more.1
done.4:
  call void @llvm.memset.p0.i64(ptr align 8 %t.10, i8 0, i64 48, i1 false)
  %t.11 = getelementptr i64, ptr %t.0, i64 3
  %element.12 = load i64, ptr %t.11
  store i64 %element.12, ptr %t.10
  %first.13 = load i64, ptr %t.10
  %t.14 = getelementptr i8, ptr %t.10, i64 8
  %small.15 = load i32, ptr %t.14
  %t.16 = sext i32 %small.15 to i64
  %t.17 = add i64 %first.13, %t.16
  ret i64 %t.17
}

define i64 @bounded(ptr %words, i64 %n) {
entry:
  %t.2 = icmp ugt i64 %n, 64
  br i1 %t.2, label %many.0, label %few.1
many.0:
  call void @llvm.trap()
  unreachable
few.1:
  %t.3 = alloca [8 x i8], i64 %n, align 8
  %t.4 = mul i64 %n, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %t.3, ptr %words, i64 %t.4, i1 false)
  br label %more.5
more.5:
  %i.10 = phi i64 [ 0, %few.1 ], [ %i.next.11, %next.7 ]
  %total.9 = phi i64 [ 0, %few.1 ], [ %t.15, %next.7 ]
  %t.12 = icmp slt i64 %i.10, %n
  br i1 %t.12, label %body.6, label %done.8
body.6:
  %t.13 = getelementptr i64, ptr %t.3, i64 %i.10
  %element.14 = load i64, ptr %t.13
  %t.15 = add i64 %total.9, %element.14
  br label %next.7
next.7:
  %i.next.11 = add i64 %i.10, 1
  br label %more.5
done.8:
  ret i64 %total.9
}

define i64 @cleared(i64 %n) {
entry:
  %t.2 = icmp ugt i64 %n, 8
  br i1 %t.2, label %many.0, label %few.1
many.0:
  call void @llvm.trap()
  unreachable
few.1:
  %t.3 = alloca [48 x i8], i64 %n, align 8
  %t.4 = mul i64 %n, 48
  call void @llvm.memset.p0.i64(ptr align 8 %t.3, i8 0, i64 %t.4, i1 false)
  %t.5 = sub i64 %n, 1
  %t.6 = getelementptr [48 x i8], ptr %t.3, i64 %t.5
  store i64 %n, ptr %t.6
  %t.7 = sub i64 %n, 1
  %t.8 = getelementptr [48 x i8], ptr %t.3, i64 %t.7
  %first.9 = load i64, ptr %t.8
  %t.10 = add i64 %first.9, 48
  ret i64 %t.10
}

define internal i64 @apply(ptr %fn, i64 %a) {
entry:
  %fn.0 = call i64 %fn(i64 %a, i64 2)
  ret i64 %fn.0
}

define i64 @indirect(ptr %fn, i64 %a) {
entry:
  %apply.0 = call i64 @apply(ptr %fn, i64 %a)
  %t.1 = add i64 %a, 1
  %apply.2 = call i64 @apply(ptr %fn, i64 %t.1)
  %t.3 = add i64 %apply.0, %apply.2
  ret i64 %t.3
}

define internal i64 @draw(ptr %state, i64 %more) {
entry:
  %t.0 = trunc i64 %more to i32
  %t.1 = atomicrmw add ptr %state, i32 %t.0 acq_rel
  %t.2 = sext i32 %t.1 to i64
  %t.3 = mul i64 %t.2, 100
  %t.4 = load atomic i32, ptr %state acquire, align 4
  %t.5 = sext i32 %t.4 to i64
  %t.6 = add i64 %t.3, %t.5
  ret i64 %t.6
}

define i64 @atomic(ptr %ticket, i64 %n) {
entry:
  store atomic i64 %n, ptr %ticket seq_cst, align 8
  %t.0 = atomicrmw add ptr %ticket, i64 -2 monotonic
  %t.1 = getelementptr i8, ptr %ticket, i64 8
  %t.2 = trunc i64 %n to i32
  %t.3 = cmpxchg ptr %t.1, i32 %t.2, i32 7 acquire acquire
  %t.4 = extractvalue { i32, i1 } %t.3, 1
  %t.5 = getelementptr i8, ptr %ticket, i64 8
  store atomic i32 3, ptr %t.5 release, align 4
  %t.6 = getelementptr [64 x i8], ptr @tickets, i64 2
  %t.7 = load atomic i64, ptr %t.6 monotonic, align 8
  %t.8 = add i64 %t.7, %n
  store atomic i64 %t.8, ptr %t.6 seq_cst, align 8
  %t.9 = load atomic i64, ptr %ticket seq_cst, align 8
  %t.10 = add i64 %t.0, %t.9
  %t.11 = getelementptr i8, ptr %ticket, i64 8
  %draw.12 = call i64 @draw(ptr %t.11, i64 %n)
  %t.13 = add i64 %t.10, %draw.12
  %t.14 = zext i1 %t.4 to i64
  %t.15 = add i64 %t.13, %t.14
  %t.16 = load atomic i64, ptr %t.6 seq_cst, align 8
  %t.17 = add i64 %t.15, %t.16
  ret i64 %t.17
}

define i64 @printed(ptr %text, ptr %how, i64 %n) {
entry:
  %t.0 = mul i64 %n, %n
  %snprintf.1 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %text, i64 32, ptr %how, i64 %n, i64 %t.0)
  %t.2 = sext i32 %snprintf.1 to i64
  %snprintf.3 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %text, i64 0, ptr %how, i64 %n, i64 %n)
  %t.4 = sext i32 %snprintf.3 to i64
  %t.5 = add i64 %t.2, %t.4
  ret i64 %t.5
}

define internal i64 @times(i64 %a, i64 %b) {
entry:
  %t.0 = mul i64 %a, %b
  ret i64 %t.0
}

define i64 @by_name(i64 %a) {
entry:
  %apply.0 = call i64 @apply(ptr @times, i64 %a)
  ret i64 %apply.0
}

define internal i1 @is_box(ptr %thing) {
entry:
  %t.0 = getelementptr i8, ptr %thing, i64 8
  %type.1 = load ptr, ptr %t.0
  %t.2 = icmp eq ptr %type.1, @box_type
  ret i1 %t.2
}

define ptr @exchange(ptr %box, ptr %thing) {
entry:
  %is_box.3 = call i1 @is_box(ptr %box)
  br i1 %is_box.3, label %on.2, label %then.0
then.0:
  ret ptr null
on.2:
  %t.4 = getelementptr i8, ptr %box, i64 16
  %item.5 = load ptr, ptr %t.4
  %t.9 = icmp eq ptr %item.5, null
  br i1 %t.9, label %then.6, label %on.8
then.6:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
on.8:
  call void @Py_IncRef(ptr %item.5)
  call void @Py_IncRef(ptr %thing)
  %t.10 = getelementptr i8, ptr %box, i64 16
  %t.11 = load ptr, ptr %t.10
  store ptr %thing, ptr %t.10
  call void @Py_DecRef(ptr %t.11)
  ret ptr %item.5
}

define zeroext i1 @texts(ptr %things, i64 %n, ptr %out) {
entry:
  br label %more.0
more.0:
  %i.4 = phi i64 [ 0, %entry ], [ %i.next.5, %next.2 ]
  %t.6 = icmp slt i64 %i.4, %n
  br i1 %t.6, label %body.1, label %done.3
body.1:
  %t.7 = getelementptr i64, ptr %things, i64 %i.4
  %element.8 = load ptr, ptr %t.7
  %PyObject_Str.9 = call ptr @PyObject_Str(ptr %element.8)
  %t.13 = icmp eq ptr %PyObject_Str.9, null
  br i1 %t.13, label %then.10, label %on.12
then.10:
  ret i1 true
on.12:
  %t.14 = getelementptr i8, ptr %PyObject_Str.9, i64 8
  %type.15 = load ptr, ptr %t.14
  %t.16 = ptrtoint ptr %type.15 to i64
  %t.17 = getelementptr i64, ptr %out, i64 %i.4
  store i64 %t.16, ptr %t.17
  call void @Py_DecRef(ptr %PyObject_Str.9)
  br label %next.2
next.2:
  %i.next.5 = add i64 %i.4, 1
  br label %more.0
done.3:
  ret i1 false
}

define i64 @remember(ptr %thing) {
entry:
  %taken.0 = load ptr, ptr @cell
  store ptr null, ptr @cell
  call void @Py_IncRef(ptr %thing)
  store ptr %thing, ptr @cell
  call void @Py_DecRef(ptr %taken.0)
  ret i64 16
}

define i64 @exchanged(ptr %holder, ptr %thing) {
entry:
  %thing.0 = load ptr, ptr %holder
  %taken.1 = load ptr, ptr %holder
  store ptr null, ptr %holder
  call void @Py_IncRef(ptr %thing)
  store ptr %thing, ptr %holder
  %t.5 = icmp eq ptr %thing.0, null
  br i1 %t.5, label %then.2, label %else.3
then.2:
  br label %chosen.4
else.3:
  %t.6 = ptrtoint ptr %thing.0 to i64
  br label %chosen.4
chosen.4:
  %if.7 = phi i64 [ 0, %then.2 ], [ %t.6, %else.3 ]
  call void @Py_DecRef(ptr %taken.1)
  ret i64 %if.7
}

define internal ptr @held_by(ptr %holder) {
entry:
  %thing.0 = load ptr, ptr %holder
  ret ptr %thing.0
}

define i64 @briefly(ptr %thing, ptr %other) {
entry:
  %t.0 = alloca [8 x i8], align 8
  call void @llvm.memset.p0.i64(ptr align 8 %t.0, i8 0, i64 8, i1 false)
  call void @Py_IncRef(ptr %thing)
  store ptr %thing, ptr %t.0
  %held_by.1 = call ptr @held_by(ptr %t.0)
  %t.2 = ptrtoint ptr %held_by.1 to i64
  %t.3 = load ptr, ptr %t.0
  call void @Py_DecRef(ptr %t.3)
  %t.4 = alloca [2 x [8 x i8]], align 8
  call void @llvm.memset.p0.i64(ptr align 8 %t.4, i8 0, i64 16, i1 false)
  %t.5 = getelementptr i64, ptr %t.4, i64 1
  call void @Py_IncRef(ptr %other)
  store ptr %other, ptr %t.5
  br label %more.6
more.6:
  %i.9 = phi i64 [ 0, %entry ], [ %next.10, %one.7 ]
  %t.11 = icmp slt i64 %i.9, 2
  br i1 %t.11, label %one.7, label %dropped.8
one.7:
  %t.12 = getelementptr [8 x i8], ptr %t.4, i64 %i.9
  %t.13 = load ptr, ptr %t.12
  call void @Py_DecRef(ptr %t.13)
  %next.10 = add i64 %i.9, 1
  br label %more.6
dropped.8:
  ret i64 %t.2
}

define ptr @either(ptr %thing, ptr %other, i64 %which) {
entry:
  %t.0 = icmp eq i64 %which, 0
  %t.1 = select i1 %t.0, ptr %thing, ptr %other
  br label %more.2
more.2:
  %result.5 = phi ptr [ null, %entry ], [ %PyObject_Str.8, %body.3 ]
  %which.6 = phi i64 [ %which, %entry ], [ %t.9, %body.3 ]
  %t.7 = icmp slt i64 %which.6, 4
  br i1 %t.7, label %body.3, label %done.4
body.3:
  call void @Py_DecRef(ptr %result.5)
  %PyObject_Str.8 = call ptr @PyObject_Str(ptr %t.1)
  %t.9 = add i64 %which.6, 2
  br label %more.2
done.4:
  ret ptr %result.5
}

define ptr @last_of(ptr %row, i64 %n) {
entry:
  %t.0 = sub i64 %n, 1
  %PyTuple_GetItem.1 = call ptr @PyTuple_GetItem(ptr %row, i64 %t.0)
  %t.5 = icmp ne ptr %PyTuple_GetItem.1, null
  br i1 %t.5, label %then.2, label %else.3
then.2:
  call void @Py_IncRef(ptr %PyTuple_GetItem.1)
  br label %chosen.4
else.3:
  br label %chosen.4
chosen.4:
  %if.6 = phi ptr [ %PyTuple_GetItem.1, %then.2 ], [ null, %else.3 ]
  ret ptr %if.6
}

define internal i64 @deeper(ptr %thing, i64 %depth) {
entry:
  %describe.0 = call i64 @describe(ptr %thing, i64 %depth)
  %t.1 = add i64 %describe.0, 1
  ret i64 %t.1
}

define i64 @describe(ptr %thing, i64 %depth) {
entry:
  %t.3 = icmp eq i64 %depth, 0
  br i1 %t.3, label %then.0, label %on.2
then.0:
  ret i64 0
on.2:
  %t.4 = sub i64 %depth, 1
  %deeper.5 = call i64 @deeper(ptr %thing, i64 %t.4)
  %t.6 = add i64 1, %deeper.5
  ret i64 %t.6
}

define void @emptied(ptr %things, i64 %n) {
entry:
  br label %more.0
more.0:
  %i.4 = phi i64 [ 0, %entry ], [ %i.next.5, %next.2 ]
  %t.6 = icmp slt i64 %i.4, %n
  br i1 %t.6, label %body.1, label %done.3
body.1:
  %t.7 = getelementptr i64, ptr %things, i64 %i.4
  %taken.8 = load ptr, ptr %t.7
  store ptr null, ptr %t.7
  call void @Py_DecRef(ptr %taken.8)
  br label %next.2
next.2:
  %i.next.5 = add i64 %i.4, 1
  br label %more.0
done.3:
  ret void
}

define ptr @adopted(ptr %thing) {
entry:
  ret ptr %thing
}

define ptr @shifted(ptr %cells, i64 %n, ptr %newest) {
entry:
  br label %more.0
more.0:
  %i.5 = phi i64 [ 0, %entry ], [ %i.next.6, %next.2 ]
  %newer.4 = phi ptr [ %newest, %entry ], [ %if.15, %next.2 ]
  %t.7 = icmp slt i64 %i.5, %n
  br i1 %t.7, label %body.1, label %done.3
body.1:
  %t.8 = getelementptr i64, ptr %cells, i64 %i.5
  %t.12 = icmp eq i64 %i.5, 0
  br i1 %t.12, label %then.9, label %else.10
then.9:
  %thing.13 = load ptr, ptr %t.8
  br label %chosen.11
else.10:
  %thing.14 = load ptr, ptr %t.8
  br label %chosen.11
chosen.11:
  %if.15 = phi ptr [ %thing.13, %then.9 ], [ %thing.14, %else.10 ]
  store ptr %newer.4, ptr %t.8
  br label %next.2
next.2:
  %i.next.6 = add i64 %i.5, 1
  br label %more.0
done.3:
  call void @Py_IncRef(ptr %newer.4)
  ret ptr %newer.4
}

define ptr @twice(ptr %thing, i1 %flag) {
entry:
  br i1 %flag, label %then.0, label %on.2
then.0:
  %PyObject_Str.3 = call ptr @PyObject_Str(ptr %thing)
  br label %on.2
on.2:
  %text.4 = phi ptr [ null, %entry ], [ %PyObject_Str.3, %then.0 ]
  ret ptr %text.4
}

define internal i1 @is_between(i64 %a, i64 %b, i64 %c) alwaysinline {
entry:
  %t.0 = icmp sle i64 %a, %b
  %t.1 = icmp slt i64 %b, %c
  %t.2 = and i1 %t.0, %t.1
  ret i1 %t.2
}

define zeroext i1 @between(i64 %a, i64 %b, i64 %c) {
entry:
  %is_between.2 = call i1 @is_between(i64 %a, i64 %b, i64 %c)
  br i1 %is_between.2, label %either.0, label %or.1
or.1:
  %t.3 = icmp eq i64 %a, %b
  %t.4 = icmp eq i64 %b, %c
  %t.5 = or i1 %t.3, %t.4
  %t.6 = xor i1 %t.5, true
  br label %either.0
either.0:
  %t.7 = phi i1 [ true, %entry ], [ %t.6, %or.1 ]
  ret i1 %t.7
}

define i64 @decided(i64 %a, i64 %b, i64 %c) {
entry:
  br label %on.2
on.2:
  br label %then.4
then.4:
  br label %on.6
on.6:
  br label %or.11
or.11:
  br label %or.13
or.13:
  %t.15 = icmp sgt i64 %c, 2
  br i1 %t.15, label %then.8, label %on.10
then.8:
  br label %on.10
on.10:
  %found.16 = phi i64 [ 2, %or.13 ], [ 6, %then.8 ]
  br label %more.17
more.17:
  %found.20 = phi i64 [ %found.16, %on.10 ]
  br label %done.19
done.19:
  br label %else.23
else.23:
  br label %chosen.24
chosen.24:
  %t.26 = add i64 %found.20, 16
  ret i64 %t.26
}

define internal i64 @step(ptr %pair) {
entry:
  %first.0 = load i64, ptr %pair
  %t.1 = add i64 %first.0, 1
  store i64 %t.1, ptr %pair
  %first.2 = load i64, ptr %pair
  ret i64 %first.2
}

define i64 @once(ptr %pair, i64 %n) {
entry:
  store i64 0, ptr %pair
  %t.0 = getelementptr i8, ptr %pair, i64 16
  %step.1 = call i64 @step(ptr %pair)
  %t.2 = getelementptr i64, ptr %t.0, i64 %step.1
  %element.3 = load i64, ptr %t.2
  %t.4 = add i64 %element.3, 10
  %t.5 = getelementptr i64, ptr %t.0, i64 %step.1
  store i64 %t.4, ptr %t.5
  %t.6 = getelementptr i8, ptr %pair, i64 16
  %first.7 = load i64, ptr %pair
  %t.8 = sub i64 %first.7, 1
  %t.9 = getelementptr i64, ptr %t.6, i64 %t.8
  %element.10 = load i64, ptr %t.9
  %step.11 = call i64 @step(ptr %pair)
  %t.12 = add i64 %element.10, %step.11
  %t.13 = getelementptr i64, ptr %t.6, i64 %t.8
  store i64 %t.12, ptr %t.13
  %t.14 = getelementptr i8, ptr %pair, i64 16
  %element.15 = load i64, ptr %t.14
  %t.16 = add i64 %element.15, %n
  store i64 %t.16, ptr %t.14
  ret i64 %n
}

define i64 @narrow(i64 %n) {
entry:
  br label %more.0
more.0:
  %i.5 = phi i64 [ 0, %entry ], [ %i.next.6, %next.2 ]
  %sum.4 = phi i64 [ 0, %entry ], [ %t.8, %next.2 ]
  %t.7 = icmp slt i64 %i.5, %n
  br i1 %t.7, label %body.1, label %done.3
body.1:
  %t.8 = add i64 %sum.4, %i.5
  br label %next.2
next.2:
  %i.next.6 = add i64 %i.5, 1
  br label %more.0
done.3:
  ret i64 %sum.4
}

define zeroext i1 @by_module(ptr %row, i64 %i) {
entry:
  %PyTuple_GetItem.0 = call ptr @PyTuple_GetItem(ptr %row, i64 %i)
  %t.1 = icmp eq ptr %PyTuple_GetItem.0, @_Py_NoneStruct
  ret i1 %t.1
}

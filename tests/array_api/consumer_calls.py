"""Calls of libraries that take any array of the array API, a line each; `consumers.py` has the names.

`SCIPY` follows the tables in SciPy that say what takes other arrays; `SKLEARN` the list in
scikit-learn's page on the array API.
"""

from __future__ import annotations

__all__ = ["SCIPY", "SKLEARN"]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _words(text: str) -> list[str]:
    return text.split()


_OF_ONE = _words(
    "cbrt cosdg cosm1 cotdg ellipk ellipkm1 entr erf erfc erfcx erfinv exp1 exp10 exp2 expi expit "
    "gamma gammaln gammasgn i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e log_ndtr loggamma logit ndtr ndtri "
    "psi rgamma sinc sindg spence tandg y0 y1 zetac exprel log_softmax logsumexp softmax"
)

_OF_TWO = _words(
    "betaln binom boxcox boxcox1p chdtr chdtrc chdtri gammainc gammaincc gammainccinv gammaincinv "
    "huber inv_boxcox inv_boxcox1p kl_div pdtr pdtrc poch pseudo_huber rel_entr stdtr stdtrit "
    "xlog1py xlogy zeta"
)

_OF_THREE = _words(
    "betainc betaincc betaincinv fdtr fdtrc fdtri gdtr gdtrc radian"
)  # fmt: skip

_SPECIAL = [
    *(f"special.{name}(p)" for name in _OF_ONE),
    *(f"special.{name}(p, q)" for name in _OF_TWO),
    *(f"special.{name}(p, q, q)" for name in _OF_THREE),
    *_lines("""
    special.bdtr(p, k + 3, q)
    special.bdtrc(p, k + 3, q)
    special.bdtri(p, k + 3, q)
    special.nbdtr(k, k + 3, q)
    special.nbdtrc(k, k + 3, q)
    special.nbdtri(k, k + 3, q)
    special.pdtri(k, q)
    special.expn(k, p)
    special.hyp1f1(p, q, x)
    special.lpmv(k, k + 1, p)
    special.multigammaln(p + 2, 2)
    special.polygamma(k + 1, p)
    special.yn(k, p)
    """),
]

_STATS_OF_ONE = _words(
    "boxcox_llf(0.5,{}) circmean({}) circstd({}) circvar({}) describe({}) entropy({}) "
    "differential_entropy({}) gmean({}) gstd({}) gzscore({}) hmean({}) iqr({}) jarque_bera({}) "
    "kstat({}) kstatvar({}) kurtosis({}) kurtosistest(l) lmoment({}) median_abs_deviation({}) "
    "mode(k) moment({},3) normaltest(l) pmean({},2) rankdata({}) sem({}) sigmaclip({}) skew({}) "
    "skewtest({}) tmax({}) tmean({}) tmin({}) trim_mean({},0.1) tsem({}) tstd({}) tvar({}) "
    "variation({}) zscore({}) yeojohnson_llf(0.5,{}) wilcoxon(x) quantile({},q) "
    "directional_stats(m) false_discovery_control(q) combine_pvalues(q) power_divergence({}) "
    "chisquare({}) ttest_1samp({},0.5) cramervonmises(x,normal_cdf) ks_1samp(x,normal_cdf)"
)

_STATS = [
    *(f"stats.{call.format('p')}" for call in _STATS_OF_ONE),
    *_lines("""
    stats.skew(m, axis=1)
    stats.zscore(m, axis=0)
    stats.moment(m, 2, axis=1)
    stats.gmean(m + 3.0, axis=1, keepdims=True)
    stats.alexandergovern(x, y, p)
    stats.ansari(x, y)
    stats.bartlett(x, y)
    stats.fligner(x, y)
    stats.levene(x, y)
    stats.mood(x, y)
    stats.brunnermunzel(x, y)
    stats.chatterjeexi(x, y)
    stats.cramervonmises_2samp(x, y)
    stats.epps_singleton_2samp(x, y)
    stats.f_oneway(x, y, p)
    stats.friedmanchisquare(x, y, p)
    stats.kruskal(x, y, p)
    stats.mannwhitneyu(x, y)
    stats.pearsonr(x, y)
    stats.spearmanrho(x, y)
    stats.ttest_ind(x, y)
    stats.ttest_ind(x, y, equal_var=False)
    stats.ttest_ind_from_stats(x, p, 9, y, q, 8)
    stats.ttest_rel(x, y)
    stats.zmap(x, y)
    stats.bootstrap((p,), mean, n_resamples=40, rng=1)
    stats.monte_carlo_test(x, normal, mean, n_resamples=40)
    stats.permutation_test((x, y), difference, n_resamples=40, rng=1)
    """),
]

_WINDOWS = [
    f"signal.windows.{call}, xp=xp)"
    for call in _words(
        "barthann(8 bartlett(8 blackman(8 blackmanharris(8 bohman(8 boxcar(8 chebwin(8,60 "
        "cosine(8 exponential(8 flattop(8 gaussian(8,2 general_gaussian(8,1,2 "
        "general_hamming(8,.5 get_window('hann',8 hamming(8 hann(8 kaiser(8,4 "
        "kaiser_bessel_derived(8,4 lanczos(8 nuttall(8 parzen(8 taylor(8 triang(8 tukey(8"
    )
]

_FILTERS = _words(
    "correlate1d({},w) convolve1d({},w) convolve({},c) correlate({},c) gaussian_filter({},1) "
    "gaussian_filter1d({},1) gaussian_gradient_magnitude({},1) gaussian_laplace({},1) laplace({}) "
    "maximum_filter({},3) maximum_filter1d({},3) median_filter({},3) minimum_filter({},3) "
    "minimum_filter1d({},3) percentile_filter({},30,3) prewitt({}) rank_filter({},1,3) sobel({}) "
    "uniform_filter({},3) uniform_filter1d({},3) rotate({},20) shift({},.5) spline_filter({}) "
    "spline_filter1d({}) zoom({},2) affine_transform({},turn) map_coordinates({},at) "
    "black_tophat({},3) white_tophat({},3) grey_closing({},3) grey_dilation({},3) "
    "grey_erosion({},3) grey_opening({},3) morphological_gradient({},3) "
    "morphological_laplace({},3) center_of_mass({}) extrema({}) histogram({},0,1,4) maximum({}) "
    "maximum_position({}) mean({}) median({}) minimum({}) minimum_position({}) "
    "standard_deviation({}) sum_labels({},labels,few) variance({}) mean({},labels,few) "
    "generic_filter({},middle,3) fourier_shift({},1) generic_filter1d({},ends,3) "
    "generic_laplace({},second) generic_gradient_magnitude({},second) sum({}) "
    "geometric_transform({},near) labeled_comprehension({},labels,few,len,float,0) "
    "vectorized_filter({},total,size=3) "
    "fourier_gaussian({},1) fourier_uniform({},2) fourier_ellipsoid({},2)"
)

_NDIMAGE = [
    "ndimage.find_objects(labels)",
    "ndimage.value_indices(labels)",
    *(f"ndimage.{call.format('m')}" for call in _FILTERS),
    *(
        f"ndimage.{name}(flags)" if name != "iterate_structure" else f"ndimage.{name}(flags,2)"
        for name in _words(
            "binary_closing binary_dilation binary_erosion binary_fill_holes binary_hit_or_miss "
            "binary_opening binary_propagation label iterate_structure distance_transform_bf distance_transform_cdt "
            "distance_transform_edt"
        )
    ),
]

_SIGNAL = _lines("""
    signal.windows.general_cosine(8, w)
    signal.bessel(3, ratio)
    signal.butter(3, ratio)
    signal.cheby1(3, 1, ratio)
    signal.cheby2(3, 40, ratio)
    signal.ellip(3, 1, 40, ratio)
    signal.buttord(ratio / 2, ratio, 3, 40)
    signal.firwin(7, ratio)
    signal.firwin2(7, edges, gains)
    signal.cheb1ord(ratio / 2, ratio, 3, 40)
    signal.cheb2ord(ratio / 2, ratio, 3, 40)
    signal.ellipord(ratio / 2, ratio, 3, 40)
    signal.iirfilter(3, ratio, btype='lowpass')
    signal.iirdesign(ratio / 2, ratio, 3, 40)
    signal.buttap(3, xp=xp)
    signal.cheb1ap(3, 1, xp=xp)
    signal.firls(7, band, band * 0 + 1)
    signal.minimum_phase(p[:9])
    signal.iirnotch(.3, 30, xp=xp)
    signal.iirpeak(.3, 30, xp=xp)
    signal.iircomb(.25, 30, xp=xp)
    signal.gammatone(.3, 'iir', xp=xp)
    signal.bilinear(w, w + 1)
    signal.lp2lp(w, w + 1, 2)
    signal.lp2hp(w, w + 1, 2)
    signal.lp2bp(w, w + 1, 2, 1)
    signal.lp2bs(w, w + 1, 2, 1)
    signal.sos2tf(sections)
    signal.sos2zpk(sections)
    signal.normalize(w, w + 1)
    signal.abcd_normalize(c, c, c, c)
    signal.lfiltic(w, w + 1, w)
    signal.sosfilt_zi(sections)
    signal.sosfiltfilt(sections, long)
    signal.deconvolve(x, w)
    signal.envelope(x)
    signal.cspline1d_eval(x, p)
    signal.qspline1d_eval(x, p)
    signal.freqz(w)
    signal.freqs(w, w + 1)
    signal.group_delay((w, w + 1))
    signal.tf2sos(w, w + 1)
    signal.tf2zpk(w, w + 1)
    signal.lfilter_zi(w, w + 1)
    signal.lfilter(w, w + 1, x)
    signal.filtfilt(w, w + 1, long)
    signal.sosfilt(sections, x)
    signal.savgol_coeffs(5, 2, xp=xp)
    signal.savgol_filter(x, 5, 2)
    signal.convolve(x, w)
    signal.convolve2d(m, c)
    signal.correlate(x, w)
    signal.correlate2d(m, c)
    signal.fftconvolve(x, w)
    signal.oaconvolve(x, w)
    signal.detrend(x)
    signal.hilbert(x)
    signal.medfilt(x, 3)
    signal.medfilt2d(m, 3)
    signal.order_filter(m, ones, 1)
    signal.resample(x, 6)
    signal.resample_poly(x, 2, 3)
    signal.upfirdn(w, x, 2)
    signal.wiener(x, 3)
    signal.vectorstrength(p, 2.)
    signal.gauss_spline(x, 3)
    signal.cspline1d(x)
    signal.qspline1d(x)
""")

_REST = _lines("""
    cluster.vq.whiten(m)
    cluster.vq.vq(m, m[:2, :])
    cluster.vq.kmeans(m, 2, rng=1)
    cluster.vq.kmeans2(m, 2, rng=1)
    cluster.hierarchy.linkage(m, 'single')
    cluster.hierarchy.average(m)
    cluster.hierarchy.centroid(m)
    cluster.hierarchy.complete(m)
    cluster.hierarchy.ward(m)
    cluster.hierarchy.cophenet(cluster.hierarchy.linkage(m))
    cluster.hierarchy.fcluster(cluster.hierarchy.linkage(m), 2)
    cluster.hierarchy.fclusterdata(m, 1.)
    cluster.hierarchy.inconsistent(cluster.hierarchy.linkage(m))
    cluster.hierarchy.leaves_list(cluster.hierarchy.linkage(m))
    cluster.hierarchy.maxdists(cluster.hierarchy.linkage(m))
    cluster.hierarchy.is_monotonic(cluster.hierarchy.linkage(m))
    cluster.hierarchy.is_valid_linkage(cluster.hierarchy.linkage(m))
    constants.convert_temperature(x, 'Celsius', 'Kelvin')
    cluster.hierarchy.weighted(m)
    cluster.hierarchy.median(m)
    cluster.hierarchy.single(m)
    cluster.hierarchy.optimal_leaf_ordering(cluster.hierarchy.linkage(m), m)
    cluster.hierarchy.to_mlab_linkage(cluster.hierarchy.linkage(m))
    cluster.hierarchy.from_mlab_linkage(cluster.hierarchy.to_mlab_linkage(cluster.hierarchy.linkage(m)))
    cluster.hierarchy.is_valid_im(cluster.hierarchy.inconsistent(cluster.hierarchy.linkage(m)))
    cluster.hierarchy.num_obs_linkage(cluster.hierarchy.linkage(m))
    cluster.hierarchy.correspond(cluster.hierarchy.linkage(m), long[:15])
    cluster.hierarchy.dendrogram(cluster.hierarchy.linkage(m), no_plot=True)
    cluster.hierarchy.is_isomorphic(k, k)
    cluster.hierarchy.maxinconsts(cluster.hierarchy.linkage(m), cluster.hierarchy.inconsistent(cluster.hierarchy.linkage(m)))
    cluster.hierarchy.maxRstat(cluster.hierarchy.linkage(m), cluster.hierarchy.inconsistent(cluster.hierarchy.linkage(m)), 1)
    cluster.hierarchy.leaders(cluster.hierarchy.linkage(m), cluster.hierarchy.fcluster(cluster.hierarchy.linkage(m), 2))
    cluster.hierarchy.to_tree(cluster.hierarchy.linkage(m)).pre_order()
    constants.lambda2nu(p)
    constants.nu2lambda(p)
    differentiate.derivative(xp.exp, x)
    differentiate.jacobian(squares, x[:3])
    fft.fft(x)
    fft.rfft(x)
    fft.irfft(x)
    fft.dct(x)
    fft.idct(x)
    fft.dst(x)
    fft.idst(x)
    fft.dctn(m)
    fft.idctn(m)
    fft.dstn(m)
    fft.idstn(m)
    fft.fht(x, .1, 1.)
    fft.ifftshift(x)
    fft.fftfreq(8, xp=xp)
    fft.fftshift(x)
    integrate.cubature(xp.exp, zeros, zeros + 1)
    integrate.cumulative_simpson(x, dx=1.)
    integrate.cumulative_trapezoid(x)
    integrate.romb(x[:9])
    integrate.trapezoid(x)
    integrate.tanhsinh(xp.exp, zeros, zeros + 1)
    integrate.qmc_quad(total_of_rows, zeros, zeros + 1, n_points=8, n_estimates=2, qrng=stats.qmc.Halton(1, rng=1))
    interpolate.Akima1DInterpolator(up, x)(q)
    interpolate.CubicHermiteSpline(up, x, y)(q)
    interpolate.CubicSpline(up, x)(q)
    interpolate.PchipInterpolator(up, x)(q)
    interpolate.BSpline(up, x[:8], 3)(q)
    interpolate.make_interp_spline(up, x)(q)
    interpolate.make_smoothing_spline(up, x)(q)
    interpolate.make_splrep(up, x)(q)
    interpolate.make_lsq_spline(up, x, knots)(q)
    interpolate.make_splprep([x, y])[1]
    interpolate.NdBSpline((up, up), sheet, 1)(at.T / 12)
    interpolate.PPoly(m[:3, :], up[:5])(q)
    interpolate.BPoly(m[:3, :], up[:5])(q)
    interpolate.RBFInterpolator(m, x[:6])(m)
    interpolate.RegularGridInterpolator((up[:6], up[:4]), m)(at.T / 12)
    linalg.orthogonal_procrustes(m, m + 1)
    linalg.block_diag(m, c)
    linalg.fiedler(x)
    optimize.rosen(x)
    optimize.rosen_der(x)
    optimize.rosen_hess(x)
    optimize.rosen_hess_prod(x, y)
    optimize.elementwise.find_root(below, (zeros, zeros + 1))
    optimize.elementwise.find_minimum(square, (zeros - 1, zeros + .2, zeros + 2))
    optimize.elementwise.bracket_root(below, zeros)
    spatial.transform.Rotation.from_rotvec(x[:3]).as_quat()
    spatial.transform.Rotation.from_quat(x[:4]).as_matrix()
    spatial.transform.Rotation.from_quat(m).apply(x[:3])
    spatial.transform.Rotation.from_quat(m).inv().as_euler('xyz')
    spatial.transform.Rotation.from_quat(m).mean().as_mrp()
    spatial.transform.Rotation.from_quat(m).magnitude()
    spatial.transform.Rotation.from_euler('xyz', x[:3]).as_matrix()
    spatial.transform.Rotation.from_matrix(eye).as_quat()
    spatial.transform.Rotation.from_mrp(x[:3]).as_rotvec()
    spatial.transform.Rotation.from_davenport(eye, 'extrinsic', x[:3]).as_quat()
    spatial.transform.Rotation.from_quat(m).as_davenport(eye, 'extrinsic')
    spatial.transform.Rotation.from_quat(m)[1:3].as_quat()
    spatial.transform.Rotation.align_vectors(m[:, :3], m[:, 1:])[0].as_quat()
    (spatial.transform.Rotation.from_quat(m) * spatial.transform.Rotation.from_quat(m)).as_quat()
    (spatial.transform.Rotation.from_quat(m) ** 2).as_quat()
    spatial.transform.Rotation.from_quat(m).approx_equal(spatial.transform.Rotation.from_quat(m))
    spatial.transform.Rotation.from_quat(m).reduce().as_quat()
    spatial.transform.Slerp(up[:6], spatial.transform.Rotation.from_quat(m))(p / 3).as_quat()
    spatial.transform.RigidTransform.from_translation(x[:3]).as_matrix()
    spatial.transform.RigidTransform.from_exp_coords(x[:6]).as_matrix()
    spatial.transform.RigidTransform.from_exp_coords(x[:6]).as_dual_quat()
    spatial.transform.RigidTransform.from_exp_coords(x[:6]).as_exp_coords()
    spatial.transform.RigidTransform.from_exp_coords(x[:6]).as_components()[0]
    spatial.transform.RigidTransform.from_exp_coords(x[:6]).inv().apply(x[:3])
    spatial.transform.RigidTransform.from_rotation(spatial.transform.Rotation.from_quat(m)).as_matrix()
    (spatial.transform.RigidTransform.from_exp_coords(x[:6]) ** 2).as_matrix()
""")

SCIPY = [*_SPECIAL, *_STATS, *_WINDOWS, *_NDIMAGE, *_SIGNAL, *_REST]

SKLEARN = _lines("""
    preprocessing.StandardScaler().fit(X).transform(X)
    preprocessing.MinMaxScaler().fit(X).transform(X)
    preprocessing.MaxAbsScaler().fit(X).transform(X)
    preprocessing.Normalizer().fit(X).transform(X)
    preprocessing.Binarizer().fit(X).transform(X)
    preprocessing.KernelCenterer().fit(X @ X.T).transform(X @ X.T)
    preprocessing.LabelBinarizer().fit(y).transform(y)
    preprocessing.LabelEncoder().fit(y).transform(y)
    preprocessing.PolynomialFeatures().fit(X).transform(X)
    preprocessing.normalize(X)
    preprocessing.maxabs_scale(X)
    preprocessing.minmax_scale(X)
    decomposition.PCA(2, svd_solver='full').fit(X).transform(X)
    decomposition.PCA(2, svd_solver='covariance_eigh').fit(X).explained_variance_
    decomposition.PCA(2, svd_solver='randomized', power_iteration_normalizer='QR', random_state=0).fit(X).explained_variance_
    discriminant_analysis.LinearDiscriminantAnalysis().fit(X, y).predict(X)
    linear_model.Ridge(solver='svd').fit(X, t).predict(X)
    linear_model.RidgeCV().fit(X, t).predict(X)
    linear_model.RidgeClassifier(solver='svd').fit(X, y).predict(X)
    linear_model.RidgeClassifierCV().fit(X, y).predict(X)
    linear_model.LogisticRegression(solver='lbfgs').fit(X, y).predict(X)
    linear_model.PoissonRegressor(solver='lbfgs').fit(X, t * t).predict(X)
    naive_bayes.GaussianNB().fit(X, y).predict_proba(X)
    mixture.GaussianMixture(2, init_params='random_from_data', random_state=0).fit(X).predict(X)
    kernel_approximation.Nystroem(n_components=3, random_state=0).fit(X).transform(X)
    calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), method='temperature', cv=2).fit(X, y).predict(X)
    pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.Ridge(solver='svd')).fit(X, t).predict(X)
    model_selection.GridSearchCV(linear_model.Ridge(solver='svd'), {'alpha': [.1, 1.]}, cv=2).fit(X, t).best_score_
    model_selection.RandomizedSearchCV(linear_model.Ridge(solver='svd'), {'alpha': [.1, 1.]}, n_iter=2, cv=2, random_state=0).fit(X, t).best_score_
    model_selection.HalvingGridSearchCV(linear_model.Ridge(solver='svd'), {'alpha': [.1, 1.]}, cv=2, random_state=0).fit(X, t).best_score_
    model_selection.cross_val_predict(linear_model.Ridge(solver='svd'), X, t, cv=2)
    model_selection.cross_val_score(linear_model.Ridge(solver='svd'), X, t, cv=2)
    model_selection.train_test_split(X, y, random_state=0)
    metrics.accuracy_score(y, z)
    metrics.average_precision_score(y, s)
    metrics.balanced_accuracy_score(y, z)
    metrics.brier_score_loss(y, s)
    metrics.cohen_kappa_score(y, z)
    metrics.confusion_matrix(y, z)
    metrics.d2_absolute_error_score(t, u)
    metrics.d2_brier_score(y, s)
    metrics.d2_log_loss_score(y, s)
    metrics.d2_pinball_score(t, u)
    metrics.d2_tweedie_score(t, u)
    metrics.det_curve(y, s)
    metrics.explained_variance_score(t, u)
    metrics.f1_score(y, z)
    metrics.fbeta_score(y, z, beta=2)
    metrics.hamming_loss(y, z)
    metrics.jaccard_score(y, z)
    metrics.log_loss(y, s)
    metrics.matthews_corrcoef(y, z)
    metrics.max_error(t, u)
    metrics.mean_absolute_error(t, u)
    metrics.mean_absolute_percentage_error(t, u)
    metrics.mean_gamma_deviance(t * t + 1, u * u + 1)
    metrics.mean_pinball_loss(t, u)
    metrics.mean_poisson_deviance(t * t + 1, u * u + 1)
    metrics.mean_squared_error(t, u)
    metrics.mean_squared_log_error(t * t, u * u)
    metrics.mean_tweedie_deviance(t, u)
    metrics.median_absolute_error(t, u)
    metrics.multilabel_confusion_matrix(y, z)
    metrics.precision_recall_curve(y, s)
    metrics.precision_recall_fscore_support(y, z)
    metrics.precision_score(y, z)
    metrics.r2_score(t, u)
    metrics.recall_score(y, z)
    metrics.roc_auc_score(y, s)
    metrics.roc_curve(y, s)
    metrics.root_mean_squared_error(t, u)
    metrics.root_mean_squared_log_error(t * t, u * u)
    metrics.zero_one_loss(y, z)
    metrics.pairwise.additive_chi2_kernel(X * X)
    metrics.pairwise.chi2_kernel(X * X)
    metrics.pairwise.cosine_distances(X)
    metrics.pairwise.cosine_similarity(X)
    metrics.pairwise.euclidean_distances(X)
    metrics.pairwise.laplacian_kernel(X)
    metrics.pairwise.linear_kernel(X)
    metrics.pairwise.manhattan_distances(X)
    metrics.pairwise.paired_cosine_distances(X, X + 1)
    metrics.pairwise.paired_euclidean_distances(X, X + 1)
    metrics.pairwise.pairwise_distances(X, metric='cosine')
    metrics.pairwise.pairwise_kernels(X)
    metrics.pairwise.polynomial_kernel(X)
    metrics.pairwise.rbf_kernel(X)
    metrics.pairwise.sigmoid_kernel(X)
    utils.check_array(X)
    utils.check_consistent_length(X, y)
""")
